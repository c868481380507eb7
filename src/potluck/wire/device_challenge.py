"""The challenge for a contested device: the product of two matrices, generated from a seed.

The numbers are small enough that the product is exact in 32 bits, on a GPU as on a CPU. Both sides
generate the factors from the seed. The product is sent as bytes, row by row.
"""

import hashlib
import struct
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, ShortText

SIZE = 128  # rows and columns
PRODUCT_BYTES = 4 * SIZE * SIZE

Matrix = list[list[int]]
SeedText = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]


class DeviceChallenge(Struct, frozen=True):
    """Prove now that the node can compute on this device."""

    uuid: str
    seed: SeedText
    seconds_left: float


class ChallengeAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    uuid: ShortText
    seed: SeedText
    product: Annotated[bytes, Meta(min_length=PRODUCT_BYTES, max_length=PRODUCT_BYTES)]


class ChallengeAnswers(Struct, frozen=True, forbid_unknown_fields=True):
    answers: Annotated[tuple[ChallengeAnswer, ...], Meta(min_length=1, max_length=8)]


class ChallengesAnswered(Struct, frozen=True):
    """The devices whose answer was correct and in time."""

    accepted: list[str]


def make_factors(seed: str) -> tuple[bytes, bytes]:
    """The two matrices, one byte per number, row by row."""
    data = hashlib.shake_256(bytes.fromhex(seed)).digest(2 * SIZE * SIZE)
    return data[: SIZE * SIZE], data[SIZE * SIZE :]


def matrix_rows(matrix: bytes) -> Matrix:
    return [list(matrix[at : at + SIZE]) for at in range(0, SIZE * SIZE, SIZE)]


def unpack_product(product: bytes) -> Matrix:
    numbers = struct.unpack(f"<{SIZE * SIZE}I", product)
    return [list(numbers[at : at + SIZE]) for at in range(0, SIZE * SIZE, SIZE)]


def pack_product(product: Matrix) -> bytes:
    return b"".join(struct.pack(f"<{SIZE}I", *row) for row in product)
