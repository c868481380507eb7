"""What a node answered, as a value. The node is a stranger: its bytes are data, and never code.

Results are read by `plain_values`, which runs nothing. Only who asked for pickles, call by call,
gets them opened, and only those from nodes of wallets that he named; exceptions never are more than
words.
"""

import pickle

from msgspec import Struct

from potluck.consumer.files.files import MOST_VALUE_BYTES
from potluck.model.error import PotluckError, RemoteError, UntrustedResult
from potluck.wire import plain_values
from potluck.wire.results import ResultPiece

_MOST_CHARACTERS = 100_000
_HINTS = {
    "ModuleNotFoundError": "Name what it needs with dependencies=[…], or bring it with folder=…."
}


class FailedValue(Struct, frozen=True):
    """In the place of a value that there is none of."""

    error: PotluckError


class Opener(Struct, frozen=True):
    """Of one call: whose pickles are opened, if it asked for any."""

    pickles_from: frozenset[str] | None = None
    most_bytes: int = MOST_VALUE_BYTES  # a node could say that it has the size of a disk

    def values(self, found: list[bytes], piece: ResultPiece) -> list[object]:
        """What is no value stands as its error, and is no matter to its neighbours."""
        if self.pickles_from is None:
            try:
                return [plain_values.decode(data) for data in found]
            except plain_values.PlainError:
                pass  # it is found below which one it is
        return [self.value(data, piece) for data in found]

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
        """What a function raised there, in words."""
        try:
            told = plain_values.decode(data)
        except plain_values.PlainError as error:
            return _not_data(piece, str(error))
        if not isinstance(told, dict):
            return _not_data(piece, "it is no description of an exception")
        raised = RemoteError(*(_word(told, name) for name in ("type", "message", "traceback")))
        raised.hint = _HINTS.get(raised.type_name, "")
        return raised

    def _unpickled(self, data: bytes, piece: ResultPiece) -> object:
        if self.pickles_from is None or piece.wallet.lower() not in self.pickles_from:
            raise UntrustedResult(
                f"The pickle from {_who(piece)} is not opened: it would run what that node likes.",
                "Name its wallet with from_wallets=, or return plain data and leave allow_pickle.",
            )
        try:
            return pickle.loads(data)  # noqa: S301 - from a wallet that was named for this
        except Exception as error:  # whatever its making raises
            raise UntrustedResult(
                f"The pickle from {_who(piece)} can not be opened here: {error!r}.",
                "What it is made of must be installed here too.",
            ) from error


def _word(told: dict[object, object], name: str) -> str:
    """Without what a terminal would obey, and what can not be written at all."""
    word = told.get(name)
    if not isinstance(word, str):
        return ""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "�"
        for letter in word[:_MOST_CHARACTERS]
    )


def _not_data(piece: ResultPiece, why: str) -> UntrustedResult:
    return UntrustedResult(
        f"The answer of {_who(piece)} is not plain data, and is not opened: {why}",
        "No sound node answers so: results come back as data, whatever a function returns.",
    )


def _who(piece: ResultPiece) -> str:
    node = piece.node_id or "a node"
    return f"{node} (wallet {piece.wallet})" if piece.wallet else str(node)
