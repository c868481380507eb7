"""Resolves names by the system's resolver, without holding anything else up.

A name server that never responds blocks a thread for longer than any timeout. These threads are
separate from all others, and one user may hold only a few of them.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

NAMES_AT_ONCE = 64
NAMES_OF_ONE = 8


class Busy(Exception):
    """Not tried because this machine is overloaded; the receiver is not at fault."""


class Resolver(Protocol):
    """Resolves names."""

    async def addresses(self, host: str, port: int, whose: str) -> Sequence[str]:
        """Raises Busy if too many lookups are running, in total or for this user."""


class SystemNames:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(NAMES_AT_ONCE, "names")
        self._looking: list[tuple[str, Future[Any]]] = []

    async def addresses(self, host: str, port: int, whose: str) -> Sequence[str]:
        # A cancelled lookup continues in its thread, so it counts until it is done.
        self._looking = [entry for entry in self._looking if not entry[1].done()]
        of_one = sum(user == whose for user, _ in self._looking)
        if len(self._looking) >= NAMES_AT_ONCE or of_one >= NAMES_OF_ONE:
            raise Busy
        looking = self._threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        self._looking.append((whose, looking))
        # Shielded: a cancelled future would count as done while its thread is still busy.
        addresses = await asyncio.shield(asyncio.wrap_future(looking))
        return list(dict.fromkeys(str(info[4][0]) for info in addresses))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
