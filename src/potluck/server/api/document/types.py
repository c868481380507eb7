"""The types of requests and responses, and the comments of their fields in the source."""

import ast
import inspect
import io
import sys
import tokenize
from enum import Enum
from functools import cache
from typing import Any

from msgspec import inspect as shapes

Kind = type[Any]
# Directives for tools are no descriptions.
_FOR_TOOLS = ("noqa", "type:")


def kinds_in(roots: list[Any]) -> dict[str, Kind]:
    """Every struct and enum that these types contain, by name."""
    kinds: dict[str, Kind] = {}
    for shape in shapes.multi_type_info(roots):
        _collect(shape, kinds)
    return kinds


def _collect(shape: Any, kinds: dict[str, Kind]) -> None:
    if isinstance(shape, shapes.StructType | shapes.EnumType):
        known_kind = kinds.setdefault(shape.cls.__name__, shape.cls)
        assert known_kind is shape.cls, f"two types of the API have the name {shape.cls.__name__}"
    if isinstance(shape, shapes.StructType):
        for field in shape.fields:
            _collect(field.type, kinds)
    for name in ("type", "item_type", "key_type", "value_type"):
        if isinstance(inner := getattr(shape, name, None), shapes.Type):
            _collect(inner, kinds)
    for inner in (*getattr(shape, "types", ()), *getattr(shape, "item_types", ())):
        _collect(inner, kinds)


def is_always_whole(kind: Kind) -> bool:
    """Whether all of its fields are in every response."""
    config = getattr(kind, "__struct_config__", None)
    return config is not None and not config.omit_defaults


def moments_in(kind: Kind) -> set[str]:
    """The names of its fields that hold a date with time."""
    shape = shapes.type_info(kind)
    assert isinstance(shape, shapes.StructType)
    return {field.encode_name for field in shape.fields if _is_moment(field.type)}


def _is_moment(shape: Any) -> bool:
    if isinstance(shape, shapes.UnionType):
        return any(_is_moment(kind) for kind in shape.types)
    return isinstance(shape, shapes.DateTimeType)


def description(kind: Kind) -> str:
    """Its docstring, or that of its base class; for an enum, with its members."""
    for base in kind.__mro__:
        if base.__module__.startswith("potluck.") and base.__doc__:
            text = inspect.cleandoc(base.__doc__)
            return f"{text}\n\n{_members(kind)}".strip() if issubclass(kind, Enum) else text
    return ""


def _members(kind: type[Enum]) -> str:
    comments = remarks(kind)
    listed = [(member.value, comments.get(member.name, "")) for member in kind]
    return "\n".join(f"- `{value}`: {why}" for value, why in listed if why)


def remarks(kind: Kind) -> dict[str, str]:
    """The comment behind each field or member, if any; the source is their only place."""
    comments: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("potluck."):
            comments |= _in_module(base.__module__).get(base.__name__, {})
    return comments


@cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    source = inspect.getsource(sys.modules[name])
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start: token.string for token in tokens if token.type == tokenize.COMMENT}
    behind = {line: _plain_comment(text) for (line, column), text in comments.items() if column > 4}
    above = {
        line: _plain_comment(text)
        for (line, column), text in comments.items()
        if column == 4
        and (line - 1, column) not in comments  # a multi-line comment is about the code
    }
    return {
        node.name: {
            target: text
            for statement in node.body
            for target in _targets(statement)
            if (text := _behind(statement, behind) or above.get(statement.lineno - 1))
        }
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def _behind(statement: ast.stmt, comments: dict[int, str]) -> str:
    lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    return next((comments[line] for line in lines if line in comments), "")


def _targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return [statement.targets[0].id]
    return []


def _plain_comment(comment: str) -> str:
    text = comment.lstrip("# ").strip()
    return "" if text.startswith(_FOR_TOOLS) else text
