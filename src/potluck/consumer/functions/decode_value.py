"""Decodes the values that nodes return. Nodes are untrusted: their bytes are data, never code.

Values are decoded by `plain_values`, which executes nothing. Pickles are loaded only for calls with
`allow_pickle`, and only from nodes of the wallets that the caller named; exceptions are only text.
"""

import pickle

from msgspec import Struct

from potluck.consumer.files.files import MOST_VALUE_BYTES
from potluck.consumer.functions.remote_errors import remote_error
from potluck.model.error import PotluckError, UntrustedResult
from potluck.wire import plain_values
from potluck.wire.results import ResultPiece

_MOST_CHARACTERS = 100_000
_ERROR_FIELDS = ("type", "message", "traceback", "stderr")


class FailedValue(Struct, frozen=True):
    """Stands for a value that is missing."""

    error: PotluckError


class ValueDecoder(Struct, frozen=True):
    """Decodes the values of one call, and pickles from these wallets."""

    pickles_from: frozenset[str] | None = None  # None: no pickles
    most_bytes: int = MOST_VALUE_BYTES  # a node could claim any size

    def values(self, encoded: list[bytes], piece: ResultPiece) -> list[object]:
        """The values; an invalid one becomes a FailedValue and does not affect the others."""
        if self.pickles_from is None:
            try:
                return [plain_values.decode(data) for data in encoded]
            except plain_values.PlainError:
                pass  # found below
        return [self.value(data, piece) for data in encoded]

    def value(self, data: bytes, piece: ResultPiece) -> object:
        try:
            if self.pickles_from is not None:
                return self._unpickled(data, piece)
            return plain_values.decode(data)
        except plain_values.PlainError as error:
            return FailedValue(_not_data(piece, str(error)))
        except UntrustedResult as error:
            return FailedValue(error)

    def error(self, data: bytes, piece: ResultPiece) -> PotluckError:
        """The exception of a function, as text."""
        try:
            fields = plain_values.decode(data)
        except plain_values.PlainError as error:
            return _not_data(piece, str(error))
        if not isinstance(fields, dict):
            return _not_data(piece, "it does not describe an exception")
        return remote_error(*(_text(fields, name) for name in _ERROR_FIELDS))

    def _unpickled(self, data: bytes, piece: ResultPiece) -> object:
        if self.pickles_from is None or piece.wallet.lower() not in self.pickles_from:
            raise UntrustedResult(
                f"The pickle from {_who(piece)} is not loaded: it could run any code here.",
                "Trust its wallet with from_wallets=, or return plain data without allow_pickle.",
            )
        try:
            return pickle.loads(data)  # noqa: S301 - from a wallet that was named for this
        except Exception as error:  # unpickling may raise anything
            raise UntrustedResult(
                f"The pickle from {_who(piece)} cannot be loaded here: {error!r}.",
                "Its modules have to be installed here too.",
            ) from error


def _text(fields: dict[object, object], name: str) -> str:
    """Without control characters and lone surrogates."""
    text = fields.get(name)
    if not isinstance(text, str):
        return ""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "�"
        for letter in text[:_MOST_CHARACTERS]
    )


def _not_data(piece: ResultPiece, why: str) -> UntrustedResult:
    return UntrustedResult(
        f"The result from {_who(piece)} is not plain data, and is not decoded: {why}",
        "A correct node returns plain data: do not trust that node.",
    )


def _who(piece: ResultPiece) -> str:
    node = piece.node_id or "a node"
    return f"{node} (wallet {piece.wallet})" if piece.wallet else str(node)
