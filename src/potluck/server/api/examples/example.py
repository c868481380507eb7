"""An example of one operation, and an area of them."""

from typing import Any, Final

import msgspec
from msgspec import Struct


class Example(Struct, frozen=True):
    title: str  # a few words, as a list of operations shows it
    request: Any = None  # a value of the type that the handler takes; bytes where it takes those
    answer: Any = None  # likewise; text for a stream; None where there is nothing to say
    also: tuple[int, ...] = ()  # what else it may answer with, besides what its shape says


class Area(Struct, frozen=True):
    """A tag of the document."""

    name: str
    description: str
    operations: dict[str, Example]  # by operation id, in the order in which they are shown


NOTHING: Final = None


def as_typed(value: Any) -> Any:
    """A request as somebody writes it: what has a default is left out."""
    if not isinstance(value, Struct):
        return [as_typed(each) for each in value] if isinstance(value, tuple) else _plain(value)
    config = value.__struct_config__
    said = {field.encode_name: getattr(value, field.name) for field in _said_of(value)}
    if config.array_like:
        return [as_typed(each) for each in said.values()]
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    return tag | {name: as_typed(each) for name, each in said.items()}


def _said_of(value: Struct) -> list[msgspec.structs.FieldInfo]:
    """Of an array all fields, since their places tell them apart."""
    fields = list(msgspec.structs.fields(type(value)))
    if value.__struct_config__.array_like:
        return fields
    return [field for field in fields if getattr(value, field.name) != _default(field)]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
