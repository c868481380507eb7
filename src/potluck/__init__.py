"""Potluck: everyone brings a GPU.

`model` and `wire` are the shared values, `decide` is the scheduler, `store`, `live` and `blobs`
are the storage, `server`, `provider` and `consumer` are the programs, `cli` is the command line.

    @potluck.task(gpu=True)
    def train(rate): ...

    losses = list(train.map([0.1, 0.01, 0.001]))

`potluck.Potluck` is the consumer's client. Each name is imported when it is first used, so that
importing this package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from potluck.consumer import Potluck as Potluck
    from potluck.consumer import aio as aio
    from potluck.consumer.functions.dispatch import flush as flush
    from potluck.consumer.functions.executor import Executor as Executor
    from potluck.consumer.functions.function import RemoteFunction as RemoteFunction
    from potluck.consumer.functions.function import task as task
    from potluck.consumer.functions.future import TaskFuture as TaskFuture
    from potluck.consumer.functions.mapping import TaskMap as TaskMap
    from potluck.model.error import PotluckError as PotluckError
    from potluck.model.error import RemoteError as RemoteError
    from potluck.model.error import TaskFailed as TaskFailed
    from potluck.model.error import UntrustedResult as UntrustedResult

__version__ = "0.2.0"
_MODULES = {
    "Executor": "potluck.consumer.functions.executor",
    "Potluck": "potluck.consumer",
    "PotluckError": "potluck.model.error",
    "RemoteError": "potluck.model.error",
    "RemoteFunction": "potluck.consumer.functions.function",
    "TaskFailed": "potluck.model.error",
    "TaskFuture": "potluck.consumer.functions.future",
    "TaskMap": "potluck.consumer.functions.mapping",
    "UntrustedResult": "potluck.model.error",
    "flush": "potluck.consumer.functions.dispatch",
    "task": "potluck.consumer.functions.function",
}
__all__ = [
    "Executor",
    "Potluck",
    "PotluckError",
    "RemoteError",
    "RemoteFunction",
    "TaskFailed",
    "TaskFuture",
    "TaskMap",
    "UntrustedResult",
    "__version__",
    "aio",
    "flush",
    "task",
]


def __getattr__(name: str) -> object:
    if name == "aio":
        return import_module("potluck.consumer.aio")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'potluck' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Also the names that have not been imported yet, for completion."""
    return sorted({*globals(), *__all__})
