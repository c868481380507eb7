"""Functions and arguments as bytes, which are unpickled in a sandbox and nowhere else.

A node has the standard library, the dependencies that the function names, and the task's folder.
Modules of one's own, beside the one that the function is in, are on none of them: so they travel
with it, by value, unless a folder brings them.
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

# Which modules travel is a setting of cloudpickle's for the whole process.
_LOCK = threading.RLock()
_TRAVELLING: list[ModuleType] = []
_INSTALLED = {"site-packages", "dist-packages"}


def pickled_function(function: Callable[..., object], by_value: list[ModuleType]) -> bytes:
    with _travelling(by_value), _explained(f"The function {name_of(function)}"):
        data: bytes = cloudpickle.dumps(function)
        return data


def pickled_call(
    arguments: tuple[object, ...], named: dict[str, object], by_value: list[ModuleType]
) -> bytes:
    """A tuple of what is given by place; with what is given by name, a list of both."""
    return pickled_items([[arguments, named] if named else arguments], by_value)[0]


def pickled_items(items: Iterable[object], by_value: list[ModuleType]) -> list[bytes]:
    """Each by itself. One pickler for all of them: making it costs more than a small item."""
    buffer = io.BytesIO()
    pickler = cloudpickle.Pickler(buffer)
    dump, forget, shared = pickle.Pickler.dump, pickler.clear_memo, pickler.globals_ref
    ends = [0]
    with _travelling(by_value), _explained("An argument"):
        for item in items:
            dump(pickler, item)
            forget()
            if shared:
                shared.clear()
            ends.append(buffer.tell())
    data = buffer.getvalue()
    return [data[start:end] for start, end in pairwise(ends)]


def plain_function(function: Callable[..., object]) -> Callable[..., object]:
    """The one that is called in the end: behind partials; of an object, what its class has."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def name_of(function: Callable[..., object]) -> str:
    return str(getattr(plain_function(function), "__qualname__", "function"))


def check_gives_value(function: Callable[..., object]) -> None:
    plain = plain_function(function)
    if inspect.iscoroutinefunction(plain) or inspect.isgeneratorfunction(plain):
        raise InvalidInput(
            f"{name_of(function)} gives no value: it is a coroutine or a generator.",
            "Return a list, or run the coroutine inside: asyncio.run(…).",
        )


def own_modules(function: Callable[..., object]) -> list[ModuleType]:
    """Those that are loaded from where the function's own module is, and not installed.

    Of a function that is installed, from where the program is: it may be given what is one's own.
    """
    module = getattr(plain_function(function), "__module__", None) or "__main__"
    top = _top(sys.modules.get("__main__" if is_installed(module) else module))
    return [
        module
        for name, module in list(sys.modules.items())
        if name != "__main__" and not is_installed(name)
        if (path := _path(module)) is not None and path.is_relative_to(top)
    ]


@cache
def is_installed(name: str) -> bool:
    """Whether a module is one that everybody may have: of Python, of a package, or ours."""
    path = _path(sys.modules.get(name))
    if name.partition(".")[0] == "potluck" or name in sys.builtin_module_names:
        return True
    if path is None or name == "__main__":
        return False
    standard = (Path(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib"))
    return bool(_INSTALLED & set(path.parts)) or any(map(path.is_relative_to, standard))


def _top(module: ModuleType | None) -> Path:
    """The directory that the module's outermost package is in."""
    path = _path(module)
    if module is None or path is None:
        return Path.cwd()
    packages = module.__name__.count(".") + (path.name == "__init__.py")
    return path.parents[packages]


def _path(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).absolute() if isinstance(file, str) else None


@contextmanager
def _travelling(modules: list[ModuleType]) -> Iterator[None]:
    """As long as we pickle, and no longer: others in this process use cloudpickle too."""
    with _LOCK:
        known = cloudpickle.list_registry_pickle_by_value()
        before = len(_TRAVELLING)
        try:
            for module in modules:
                if module.__name__ not in known:
                    cloudpickle.register_pickle_by_value(module)
                    _TRAVELLING.append(module)
            yield
        finally:
            _stay(before)


def _stay(first: int = 0) -> None:
    while len(_TRAVELLING) > first:
        cloudpickle.unregister_pickle_by_value(_TRAVELLING.pop())


def _begin_anew() -> None:
    """In a child process: another thread of the parent may have been pickling when it was forked,
    and will never be done with it here.
    """
    global _LOCK
    _LOCK = threading.RLock()
    _stay()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what} can not be pickled: {error}.",
            "Locks, connections and files that are written to can not travel: make them inside"
            " the function.",
        ) from error
