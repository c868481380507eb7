"""The consumer's side: submit tasks, follow them, fetch their results.

These names are the public interface; a test pins them. Each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from potluck.consumer.client import Potluck
    from potluck.consumer.http.transport import Patience
    from potluck.consumer.result.result import Result
    from potluck.consumer.tasks import Follow

__all__ = ["Follow", "Patience", "Potluck", "Result"]
_MODULES = {
    "Follow": "potluck.consumer.tasks",
    "Patience": "potluck.consumer.http.transport",
    "Potluck": "potluck.consumer.client",
    "Result": "potluck.consumer.result.result",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'potluck.consumer' has no attribute {name!r}")
