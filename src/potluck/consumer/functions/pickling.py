"""Pickles of functions and arguments, which only sandboxes unpickle.

A node has the standard library, the function's dependencies and the task's folder. The program's
own modules, from the directory of the function's module, are on no node: they are pickled by value
with the function, unless a folder brings them.
"""

import functools
import inspect
import io
import os
import pickle
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import cloudpickle

from potluck.model.error import InvalidInput

# Which modules are pickled by value is a process-wide setting of cloudpickle.
_LOCK = threading.RLock()
_REGISTERED: list[ModuleType] = []
_INSTALLED = {"site-packages", "dist-packages"}


def pickle_function(function: Callable[..., object], by_value: list[ModuleType]) -> bytes:
    with _pickled_by_value(by_value), _explained(f"The function {get_function_name(function)}"):
        data: bytes = cloudpickle.dumps(function)
        return data


def pickle_call(
    arguments: tuple[object, ...], named: dict[str, object], by_value: list[ModuleType]
) -> bytes:
    """Pickles the tuple of positional arguments, or a list of it and the keyword arguments."""
    return pickle_items([[arguments, named] if named else arguments], by_value)[0]


def pickle_items(items: Iterable[object], by_value: list[ModuleType]) -> list[bytes]:
    """Pickles each item on its own, with one pickler: making one costs more than a small item."""
    buffer = io.BytesIO()
    pickler = cloudpickle.Pickler(buffer)
    dump, forget, shared = pickle.Pickler.dump, pickler.clear_memo, pickler.globals_ref
    ends = [0]
    with _pickled_by_value(by_value), _explained("An argument"):
        for item in items:
            dump(pickler, item)
            forget()
            if shared:
                shared.clear()
            ends.append(buffer.tell())
    data = buffer.getvalue()
    return [data[start:end] for start, end in pairwise(ends)]


def unwrap_function(function: Callable[..., object]) -> Callable[..., object]:
    """The function behind partials; for another callable object, its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def get_function_name(function: Callable[..., object]) -> str:
    return str(getattr(unwrap_function(function), "__qualname__", "function"))


def check_gives_value(function: Callable[..., object]) -> None:
    plain = unwrap_function(function)
    if inspect.iscoroutinefunction(plain) or inspect.isgeneratorfunction(plain):
        raise InvalidInput(
            f"{get_function_name(function)} returns no value: it is a coroutine or a generator.",
            "Return a list, or run the coroutine inside: asyncio.run(…).",
        )


def find_own_modules(function: Callable[..., object]) -> list[ModuleType]:
    """The loaded modules below the directory of the function's module that are not installed.

    For an installed function, below the program's directory: its arguments may come from there.
    """
    module = getattr(unwrap_function(function), "__module__", None) or "__main__"
    top = _top(sys.modules.get("__main__" if is_installed(module) else module))
    return [
        module
        for name, module in list(sys.modules.items())
        if name != "__main__" and not is_installed(name)
        if (path := _path(module)) is not None and path.is_relative_to(top)
    ]


@cache
def is_installed(name: str) -> bool:
    """Whether a module is not the program's own: of Python, of a package, or of Potluck."""
    path = _path(sys.modules.get(name))
    if name.partition(".")[0] == "potluck" or name in sys.builtin_module_names:
        return True
    if path is None or name == "__main__":
        return False
    standard = (Path(sysconfig.get_path(scheme)) for scheme in ("stdlib", "platstdlib"))
    return bool(_INSTALLED & set(path.parts)) or any(map(path.is_relative_to, standard))


def _top(module: ModuleType | None) -> Path:
    """The directory that contains the module's outermost package."""
    path = _path(module)
    if module is None or path is None:
        return Path.cwd()
    packages = module.__name__.count(".") + (path.name == "__init__.py")
    return path.parents[packages]


def _path(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).absolute() if isinstance(file, str) else None


@contextmanager
def _pickled_by_value(modules: list[ModuleType]) -> Iterator[None]:
    """Registers the modules only while we pickle: the program may use cloudpickle too."""
    with _LOCK:
        registered = cloudpickle.list_registry_pickle_by_value()
        before = len(_REGISTERED)
        try:
            for module in modules:
                if module.__name__ not in registered:
                    cloudpickle.register_pickle_by_value(module)
                    _REGISTERED.append(module)
            yield
        finally:
            _unregister(before)


def _unregister(first: int = 0) -> None:
    while len(_REGISTERED) > first:
        cloudpickle.unregister_pickle_by_value(_REGISTERED.pop())


def _begin_anew() -> None:
    """In a child process: a thread of the parent may have held the lock at the fork."""
    global _LOCK
    _LOCK = threading.RLock()
    _unregister()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what} cannot be pickled: {error}.",
            "Create locks, connections and open files inside the function.",
        ) from error
