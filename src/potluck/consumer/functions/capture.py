"""What a function refers to, so that it is pickled again only when that has changed.

In a notebook a helper is defined anew while the function that calls it stays. So before each call
we look, without pickling, whether the names that the function uses still stand for the same
objects. An object that was changed in place looks the same; what is sent is as it was first.
"""

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TypeGuard

from potluck.consumer.functions.pickling import is_installed


def captured(function: Callable[..., object]) -> list[object]:
    """Every object that it reaches by a global name, a closure or a default, itself first."""
    found: list[object] = []
    seen: set[int] = set()
    waiting: list[object] = [function]
    while waiting:
        value = waiting.pop()
        found.append(value)
        if _is_own(value) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(_referred(value))
    return found


def _is_own(value: object) -> TypeGuard[FunctionType]:
    """What is installed stays as it is, and refers to half of the world."""
    return isinstance(value, FunctionType) and not is_installed(value.__module__)


# Nobody can change them in place; or nobody does while a program runs.
_LASTING = (
    *(str, bytes, int, float, complex, bool, type(None), type(...)),
    *(CodeType, FunctionType, BuiltinFunctionType, ModuleType, type),
)


def is_lasting(found: list[object]) -> bool:
    """Whether what was captured is the same as long as it is the same objects."""
    return all(isinstance(value, _LASTING) for value in found)


def is_same(one: list[object], other: list[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _referred(function: FunctionType) -> Iterator[object]:
    yield function.__code__
    known = function.__globals__
    for name in _names(function.__code__):
        if name in known:
            value = known[name]
            yield getattr(value, "__wrapped__", value)  # what stands behind a decorator
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _names(code: CodeType) -> Iterator[str]:
    """Also of the functions inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
