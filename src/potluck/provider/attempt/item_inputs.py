"""The inputs of an array's items, read one by one: there may be a million of them."""

import json
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import msgspec

from potluck.model.blob import Value
from potluck.model.item_input import MOST_ITEM_BYTES, ItemInputs
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.functions.arguments import Arguments
from potluck.provider.sandbox.driver import InputFailed

_NOTHING = ItemInputs()


class ItemSource:
    """A context manager; enter it before `of` or `told`. Arrays without inputs yield empty ones."""

    def __init__(self, value: Value | None, inputs: InputFiles, items_total: int | None) -> None:
        self._value = value
        self._inputs = inputs
        self._items_total = items_total
        self._open = ExitStack()
        self._arguments: Arguments | None = None

    def __enter__(self) -> Self:
        """Raises InputFailed if its length is not the array's."""
        if self._value is not None:
            arguments = Arguments(self._value, self._inputs, self._items_total)
            self._arguments = self._open.enter_context(arguments)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def of(self, item: int) -> ItemInputs:
        if self._arguments is None:
            return _NOTHING
        data = self._arguments.of(item, MOST_ITEM_BYTES)
        try:
            return msgspec.json.decode(data, type=ItemInputs)
        except msgspec.DecodeError as error:
            raise InputFailed(f"the inputs of item {item} cannot be read: {error}") from error

    def told(self, item: int) -> bytes:
        """The message for the item loop in the sandbox: only the number, without inputs."""
        inputs = self.of(item)
        if inputs == _NOTHING:
            return b"%d" % item
        message = {"item": item, "environment": inputs.environment, "arguments": inputs.arguments}
        return json.dumps(message).encode()
