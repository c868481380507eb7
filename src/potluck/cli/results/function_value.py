"""Shows what a function returned or raised; a node's response is never executed."""

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


class FunctionValue(Struct, frozen=True):
    """A returned value or a raised exception; only a text if it is not plain data."""

    value: object = None
    text: str = ""
    traceback: str = ""

    def for_programs(self) -> dict[str, Any]:
        """For --json: the value as JSON if possible, else its repr."""
        if self.traceback:
            return {"raised": self.text, "traceback": self.traceback}
        try:
            return {"returned": msgspec.json.decode(msgspec.json.encode(self.value))}
        except (TypeError, ValueError, OverflowError):
            return {"returned": self.text}


def read_function_value(potluck: "Potluck", task: TaskView) -> FunctionValue | None:
    """The value of a finished function call; None for every other task."""
    is_call = task.kind == TaskKind.FUNCTION and task.items is None
    if not is_call or task.state not in (TaskState.SUCCEEDED, TaskState.FAILED):
        return None
    pieces = potluck.results.raw(task.id).pieces
    if not pieces:
        return None
    (piece,) = pieces
    blob = piece.value.blob
    try:
        data = piece.value.data if blob is None else potluck.files.download_bytes(blob)
    except UntrustedResult as error:
        return FunctionValue(text=error.detail)
    return _raised(data) if piece.is_error else _value(data)


def _value(data: bytes) -> FunctionValue:
    from potluck.wire import plain_values

    try:
        value = plain_values.decode(data)
    except plain_values.PlainError:
        return FunctionValue(text="a pickle, which only the calling program opens")
    return describe_value(value)


def describe_value(value: object) -> FunctionValue:
    try:
        shown = printable(repr(value))
    except ValueError:  # Python refuses to print numbers of thousands of digits
        return FunctionValue(value, "a value with a number that is too long to show")
    return FunctionValue(
        value, shown if len(shown) <= _MOST_CHARACTERS else f"{shown[:_MOST_CHARACTERS]}…"
    )


def _raised(data: bytes) -> FunctionValue:
    from potluck.wire import plain_values

    try:
        decoded = plain_values.decode(data)
    except plain_values.PlainError:
        decoded = None
    members = decoded if isinstance(decoded, dict) else {}
    texts = {name: text for name, text in members.items() if isinstance(text, str)}
    error = printable(f"{texts.get('type', 'an exception')}: {texts.get('message', '')}")
    return FunctionValue(text=error[:_MOST_CHARACTERS], traceback=texts.get("traceback") or error)
