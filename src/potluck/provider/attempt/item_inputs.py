"""What the items of an array are given, read one by one: there may be a million of them."""

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
    """Of an array that gives its items nothing, nothing. To be entered before it is asked."""

    def __init__(self, value: Value | None, inputs: InputFiles, items_total: int | None) -> None:
        self._value = value
        self._inputs = inputs
        self._items_total = items_total
        self._open = ExitStack()
        self._arguments: Arguments | None = None

    def __enter__(self) -> Self:
        """Raises InputFailed if it has not as many items as the array."""
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
            raise InputFailed(f"what item {item} is given can not be read: {error}") from error

    def told(self, item: int) -> bytes:
        """For who runs the items in a sandbox: the number alone, where there is no more to say."""
        given = self.of(item)
        if given == _NOTHING:
            return b"%d" % item
        said = {"item": item, "environment": given.environment, "arguments": given.arguments}
        return json.dumps(said).encode()
