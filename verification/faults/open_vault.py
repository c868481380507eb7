"""A vault without encryption: simulated data is not secret, and must be reproducible."""

from collections.abc import Collection

from potluck.store.sealing.vault import Vault

_MARK = b"\x01open"


class OpenVault(Vault):
    def __init__(self) -> None:
        """Needs no key sources."""

    @property
    def key_id(self) -> str:
        return _MARK[1:].hex()

    def seal(self, table: str, column: str, row: str, plain: bytes) -> bytes:  # noqa: ARG002
        return _MARK + plain

    def open(self, table: str, column: str, row: str, sealed: bytes) -> bytes:  # noqa: ARG002
        return sealed.removeprefix(_MARK)

    def lacks(self, keys: Collection[bytes]) -> frozenset[bytes]:  # noqa: ARG002
        return frozenset()

    def follow(self) -> None:
        """There is nothing to follow."""
