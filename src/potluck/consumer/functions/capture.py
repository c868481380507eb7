"""The objects that a function refers to, so that it is pickled again only when they change.

In a notebook a helper may be redefined while the function that calls it stays. So before each call
we check, without pickling, whether the names in the function still refer to the same objects. An
object that was changed in place is not noticed: its first state is sent.
"""

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TypeGuard

from potluck.consumer.functions.pickling import is_installed


def capture_references(function: Callable[..., object]) -> list[object]:
    """Every object that it reaches by a global name, a closure or a default, itself first."""
    reached: list[object] = []
    visited_ids: set[int] = set()
    waiting: list[object] = [function]
    while waiting:
        value = waiting.pop()
        reached.append(value)
        if _is_own(value) and id(value) not in visited_ids:
            visited_ids.add(id(value))
            waiting.extend(_references(value))
    return reached


def _is_own(value: object) -> TypeGuard[FunctionType]:
    """Installed functions do not change, and refer to too much."""
    return isinstance(value, FunctionType) and not is_installed(value.__module__)


# Immutable, or not changed while a program runs.
_LASTING = (
    *(str, bytes, int, float, complex, bool, type(None), type(...)),
    *(CodeType, FunctionType, BuiltinFunctionType, ModuleType, type),
)


def is_lasting(references: list[object]) -> bool:
    """Whether these objects cannot change in place."""
    return all(isinstance(value, _LASTING) for value in references)


def is_same(one: list[object], other: list[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _references(function: FunctionType) -> Iterator[object]:
    yield function.__code__
    names = function.__globals__
    for name in _names(function.__code__):
        if name in names:
            value = names[name]
            yield getattr(value, "__wrapped__", value)  # the decorated function
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _names(code: CodeType) -> Iterator[str]:
    """Also the names in nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
