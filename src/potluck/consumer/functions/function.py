"""`@potluck.task`: a function that runs here when called, and on a node when submitted.

@potluck.task(ram="2GiB", dependencies=["numpy"])
def norm(size: int) -> float: ...

norm(3)                      # here
norm.submit(3).result()      # on some node
list(norm.map(range(1000)))  # on many
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, cast, overload

from potluck.consumer.functions.call import Code, FunctionOrder
from potluck.consumer.functions.dispatch import get_dispatch
from potluck.consumer.functions.future import TaskFuture
from potluck.consumer.functions.mapping import TaskMap, count_items
from potluck.consumer.functions.options import FunctionOptions, parse_options, rename_aliases
from potluck.consumer.functions.pickling import check_gives_value
from potluck.consumer.functions.submit import submit
from potluck.model.error import InvalidInput, PotluckError

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    __name__: str

    def __init__(self, code: Code, function: Callable[P, R], wishes: FunctionOptions):
        functools.update_wrapper(self, function)
        self._function = function
        self._wishes = wishes
        self._order = FunctionOrder(code, parse_options(wishes))

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Calls the function here, as if it were not decorated."""
        return self._function(*arguments, **named)

    local = __call__

    @property
    def local_function(self) -> Callable[P, R]:
        """The undecorated function."""
        return self._function

    def submit(self, *arguments: P.args, **named: P.kwargs) -> TaskFuture[R]:
        """Submits one call. It is durable once the server has it; `potluck.flush()` waits."""
        return cast(TaskFuture[R], submit(self._order, arguments, named))

    @overload
    def map(
        self,
        *iterables: Iterable[object],
        ordered: bool = ...,
        return_exceptions: Literal[False] = ...,
    ) -> TaskMap[R]: ...

    @overload
    def map(
        self, *iterables: Iterable[object], ordered: bool = ..., return_exceptions: Literal[True]
    ) -> TaskMap[R | PotluckError]: ...

    def map(
        self, *iterables: Iterable[object], ordered: bool = True, return_exceptions: bool = False
    ) -> TaskMap[R] | TaskMap[R | PotluckError]:
        """Calls the function with one item of each iterable at a time, like the built-in `map`.

        Generators are read as results are taken. A failed item raises its error in its turn, or
        yields the error with `return_exceptions`.
        """
        if not iterables:
            raise InvalidInput("There is nothing to map over.", "Pass at least one iterable.")
        dispatch = get_dispatch(self._order.options.client)
        inputs: Iterator[tuple[object, ...]] = zip(*iterables, strict=False)
        total = count_items(iterables)
        return TaskMap(self._order, dispatch, inputs, ordered, return_exceptions, total=total)

    def using(self, **wishes: Unpack[FunctionOptions]) -> "RemoteFunction[P, R]":
        """The same function with other options: `f.using(gpu=True).submit(…)`."""
        merged: FunctionOptions = {**self._wishes, **rename_aliases(wishes)}
        return RemoteFunction(self._order.code, self._function, merged)

    @overload
    def __get__(self, instance: None, owner: type, /) -> "RemoteFunction[P, R]": ...

    @overload
    def __get__(
        self: "RemoteFunction[Concatenate[S, Q], R]", instance: S, owner: type, /
    ) -> "RemoteFunction[Q, R]": ...

    def __get__(self, instance: object, owner: type, /) -> "RemoteFunction[..., R]":
        """Binds a method; its object is pickled with the code."""
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        bound = self._function.__get__(instance, owner)
        return RemoteFunction(Code(bound), bound, self._wishes)

    def __reduce__(self) -> tuple[object, tuple[tuple[Callable[P, R]]]]:
        """Unpickled, it is the plain function, so that a sandbox needs no Potluck."""
        return operator.itemgetter(0), ((self._function,),)

    def __repr__(self) -> str:
        return f"<potluck.task {self._function.__qualname__}>"


@overload
def task(function: Callable[P, R], /) -> RemoteFunction[P, R]: ...


@overload
def task(**wishes: Unpack[FunctionOptions]) -> Callable[[Callable[P, R]], RemoteFunction[P, R]]: ...


def task(
    function: Callable[P, R] | None = None, /, **wishes: Unpack[FunctionOptions]
) -> RemoteFunction[P, R] | Callable[[Callable[P, R]], RemoteFunction[P, R]]:
    """Decorates a function to run on other machines; with or without options."""
    named = rename_aliases(wishes)
    if function is not None:
        return _remote(function, named)
    parse_options(named)  # raises for a mistake at the decorator
    return functools.partial(_remote, wishes=named)


def _remote(function: Callable[P, R], wishes: FunctionOptions) -> RemoteFunction[P, R]:
    if not hasattr(function, "__qualname__"):
        raise InvalidInput("Only functions can be tasks.", "Write @potluck.task above a def.")
    check_gives_value(function)
    return RemoteFunction(Code(function), function, wishes)
