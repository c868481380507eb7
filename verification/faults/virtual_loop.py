"""An event loop in virtual time: when idle, it advances to the next timer."""

import asyncio
from collections.abc import Callable
from typing import Any


class VirtualLoop(asyncio.BaseEventLoop):
    """Supports only timers and tasks: no files, sockets or threads."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _VirtualSelector(self._pass)

    def time(self) -> float:
        return self._now

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ARG002
        func: Callable[..., Any],
        *arguments: Any,
    ) -> asyncio.Future[Any]:
        """Runs it immediately: the order of threads would not depend on the seed."""
        done = self.create_future()
        done.set_result(func(*arguments))
        return done

    def _pass(self, seconds: float) -> None:
        self._now += seconds

    def _process_events(self, events: list[Any]) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nothing waits outside."""


class _VirtualSelector:
    """Advances time instead of waiting."""

    def __init__(self, passing: Callable[[float], None]) -> None:
        self._pass = passing

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "every task waits for something that will never happen"
        if timeout > 0:
            self._pass(timeout)
        return []
