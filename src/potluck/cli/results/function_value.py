"""What a function returned or raised, for eyes. A node's answer is data, and never more."""

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from potluck.cli.terminal.screen import printable
from potluck.model.error import UntrustedResult
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_MOST_CHARACTERS = 2_000


class Returned(Struct, frozen=True):
    """One of them; of what is no plain data, a word about it."""

    value: object = None
    text: str = ""
    traceback: str = ""

    def for_programs(self) -> dict[str, Any]:
        """As JSON where it can be that, else as Python writes it."""
        if self.traceback:
            return {"raised": self.text, "traceback": self.traceback}
        try:
            return {"returned": msgspec.json.decode(msgspec.json.encode(self.value))}
        except (TypeError, ValueError, OverflowError):
            return {"returned": self.text}


def returned(potluck: "Potluck", task: TaskView) -> Returned | None:
    """Of a call that is over; None of everything else."""
    is_call = task.kind == TaskKind.FUNCTION and task.items is None
    if not is_call or task.state not in (TaskState.SUCCEEDED, TaskState.FAILED):
        return None
    found = potluck.results.told(task.id)
    if not found.pieces:
        return None
    (piece,) = found.pieces
    blob = piece.value.blob
    try:
        data = piece.value.data if blob is None else potluck.files.download_bytes(blob)
    except UntrustedResult as error:
        return Returned(text=error.detail)
    return _raised(data) if piece.is_error else _value(data)


def _value(data: bytes) -> Returned:
    from potluck.wire import plain_values

    try:
        value = plain_values.decode(data)
    except plain_values.PlainError:
        return Returned(text="a pickle, which only the program that asked for it opens")
    try:
        shown = printable(repr(value))
    except ValueError:  # Python writes no number of thousands of digits
        return Returned(value, "a value with a number that is too long to be shown")
    return Returned(
        value, shown if len(shown) <= _MOST_CHARACTERS else f"{shown[:_MOST_CHARACTERS]}…"
    )


def _raised(data: bytes) -> Returned:
    from potluck.wire import plain_values

    try:
        told = plain_values.decode(data)
    except plain_values.PlainError:
        told = None
    given = told if isinstance(told, dict) else {}
    words = {name: word for name, word in given.items() if isinstance(word, str)}
    named = printable(f"{words.get('type', 'an exception')}: {words.get('message', '')}")
    return Returned(text=named[:_MOST_CHARACTERS], traceback=words.get("traceback") or named)
