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
    found: dict[str, Kind] = {}
    for shape in shapes.multi_type_info(roots):
        _collect(shape, found)
    return found


def _collect(shape: Any, found: dict[str, Kind]) -> None:
    if isinstance(shape, shapes.StructType | shapes.EnumType):
        known = found.setdefault(shape.cls.__name__, shape.cls)
        assert known is shape.cls, f"two types of the API have the name {shape.cls.__name__}"
    if isinstance(shape, shapes.StructType):
        for field in shape.fields:
            _collect(field.type, found)
    for name in ("type", "item_type", "key_type", "value_type"):
        if isinstance(inner := getattr(shape, name, None), shapes.Type):
            _collect(inner, found)
    for inner in (*getattr(shape, "types", ()), *getattr(shape, "item_types", ())):
        _collect(inner, found)


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
        return any(_is_moment(each) for each in shape.types)
    return isinstance(shape, shapes.DateTimeType)


def description(kind: Kind) -> str:
    """Its docstring, or that of its base class; for an enum, with its members."""
    for base in kind.__mro__:
        if base.__module__.startswith("potluck.") and base.__doc__:
            said = inspect.cleandoc(base.__doc__)
            return f"{said}\n\n{_members(kind)}".strip() if issubclass(kind, Enum) else said
    return ""


def _members(kind: type[Enum]) -> str:
    said = remarks(kind)
    listed = [(member.value, said.get(member.name, "")) for member in kind]
    return "\n".join(f"- `{value}`: {why}" for value, why in listed if why)


def remarks(kind: Kind) -> dict[str, str]:
    """The comment behind each field or member, if any; the source is their only place."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("potluck."):
            found |= _in_module(base.__module__).get(base.__name__, {})
    return found


@cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    source = inspect.getsource(sys.modules[name])
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {each.start: each.string for each in tokens if each.type == tokenize.COMMENT}
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
            for each in node.body
            for target in _targets(each)
            if (text := _behind(each, behind) or above.get(each.lineno - 1))
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
