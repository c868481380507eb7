"""What a node key signs about each device that it registers: that it is present now.

It names the device, the key, the server and the time, so it cannot be reused by another key, at
another server, or later.
"""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import ShortText
from potluck.wire.identity import SignatureText
from potluck.wire.signing.signature import text_digest


class DeviceStatement(Struct, frozen=True, forbid_unknown_fields=True):
    uuid: ShortText
    origin: Annotated[str, Meta(max_length=300)]
    stated_at: Annotated[int, Meta(ge=0, le=2**40)]  # seconds since 1970
    signature: SignatureText


def statement_digest(uuid: str, key: str, origin: str, stated_at: int) -> bytes:
    return text_digest(
        f"Potluck device\nDevice: {uuid}\nNode key: {key}\nOrigin: {origin}\nAt: {stated_at}"
    )
