"""An encrypted part of a backup opens whole, under its name and with its key, or not at all."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from potluck.model.error import BackupDamaged, BadSettings
from potluck.server.backup.encryption import AesCodec, BackupSecret, make_envelope, open_envelope
from potluck.server.backup.pieces import join, pieces_of

CODEC = AesCodec(bytes(range(32)))
PASSPHRASE = BackupSecret(b"correct horse", is_passphrase=True)
KEY = BackupSecret(bytes(32), is_passphrase=False)


def encrypted(data: bytes, name: str = "a") -> bytes:
    return asyncio.run(join(CODEC.encode(name, pieces_of(data))))


def opened(data: bytes, name: str = "a", codec: AesCodec = CODEC, step: int = 1000) -> bytes:
    async def steps() -> AsyncIterator[bytes]:
        for start in range(0, len(data), step):
            yield data[start : start + step]

    return asyncio.run(join(codec.decode(name, steps())))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_encrypted_data_opens_and_has_a_known_size(size: int) -> None:
    data = bytes(size)
    assert opened(encrypted(data)) == data
    assert len(encrypted(data)) == CODEC.encoded_bytes(size)
    assert size < 16 or data[:16] not in encrypted(data)


def test_a_changed_cut_or_moved_part_does_not_open() -> None:
    whole = encrypted(bytes(200_000))
    piece = 65_536 + 16
    flipped = bytearray(whole)
    flipped[100_000] ^= 1
    swapped = whole[:32] + whole[32 + piece : 32 + 2 * piece] + whole[32 : 32 + piece]
    for wrong in (
        bytes(flipped),
        whole[:-1],
        whole[: 32 + piece],  # at the end of a piece
        whole[: 32 + 2 * piece],
        whole[:20],
        b"",
        whole + bytes(16),
        swapped + whole[32 + 2 * piece :],
    ):
        with pytest.raises(BackupDamaged):
            opened(wrong)
    with pytest.raises(BackupDamaged):
        opened(whole, "b")
    with pytest.raises(BackupDamaged):
        opened(whole, codec=AesCodec(bytes(32)))


@pytest.mark.parametrize("secret", [PASSPHRASE, KEY])
def test_an_envelope_opens_with_its_own_secret_only(secret: BackupSecret) -> None:
    envelope, key = make_envelope(secret)
    assert open_envelope(envelope, secret) == key
    other = BackupSecret(b"1" * 32, secret.is_passphrase)
    for wrong in (other, KEY if secret is PASSPHRASE else PASSPHRASE):
        with pytest.raises(BadSettings):
            open_envelope(envelope, wrong)
    assert b"correct" not in repr(secret).encode()
