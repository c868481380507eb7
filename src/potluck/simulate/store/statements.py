"""Which function models which statement: they are found by the statement's text."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.store.sql_files import Query
from potluck.wire import codec

Model = Callable[..., list[Row]]
F = TypeVar("F", bound=Model)

_MODELS: dict[str, Model] = {}


class Record(dict[str, Any]):
    """A row as the driver hands it out: going through it goes through its values."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


class NotModelled(NotImplementedError):
    """The simulated flow was not expected to use this statement; whoever needs it models it."""


def models(query: Query) -> Callable[[F], F]:
    """Marks the function that does what this statement does."""

    def register(function: F) -> F:
        _MODELS[query.text] = function
        return function

    return register


def stand_for(changed: Query, query: Query) -> None:
    """A statement with a planted fault is modelled as what it was: so the proof finds the fault."""
    _MODELS[changed.text] = _MODELS[query.text]


def answer(data: Data, statement: str, arguments: tuple[Any, ...]) -> list[Record]:
    model = _MODELS.get(statement)
    if model is None:
        raise NotModelled(f"potluck.simulate.store has no model of:\n{statement.strip()}")
    return [Record(row) for row in model(data, *map(_stored, arguments))]


def _stored(value: Any) -> Any:
    """As the driver would send it: enums by their value, structs and mappings as JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct | dict):
        return codec.encode_json(value)
    if isinstance(value, list | tuple):
        return [_stored(each) for each in value]
    return value
