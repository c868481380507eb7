"""Requests that the owner makes through the server: done in order, each once, across restarts.

A change is written into the owner's file, as a command on this machine would do it.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from potluck.local.durable_files import write_atomically
from potluck.model.ids import NodeId
from potluck.model.terms import Order, TermsChange
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.owner.owner_duties import AvailabilityDuty
from potluck.wire.owner_request import Wish


class RemoteRequests:
    """The requests to one node from one server."""

    def __init__(
        self,
        data_directory: Path,
        node_id: Callable[[], NodeId | None],
        watch: AvailabilityDuty,
        drain: Callable[[], None],
        news: ChangeCounter,
    ) -> None:
        self._path = data_directory / "wishes.json"
        self._node_id = node_id
        self._watch = watch
        self._drain = drain
        self._news = news
        self._done = _load(self._path)
        self._received: asyncio.Queue[Sequence[Wish]] = asyncio.Queue()

    def number(self) -> int:
        """The number of the last request that was carried out."""
        return self._done.get(self._node_id() or "", 0)

    def hear(self, wishes: Sequence[Wish]) -> None:
        if wishes:
            self._received.put_nowait(wishes)

    async def run(self) -> None:
        """A duty of its own, so that heartbeats do not wait for the disk."""
        while True:
            for wish in sorted(await self._received.get(), key=lambda wish: wish.number):
                if wish.number > self.number():
                    await self._carry_out(wish)

    async def _carry_out(self, wish: Wish) -> None:
        if wish.change is not None:
            self._watch.change(without_weaker_sandbox(wish.change))
        is_drain = wish.order is not None and wish.order.order is Order.DRAIN
        if wish.order is not None and not is_drain:
            self._watch.reclaim(wish.order.devices)
        done = self._done | {self._node_id() or "": wish.number}
        await asyncio.to_thread(write_atomically, self._path, msgspec.json.encode(done))
        # The next heartbeat reports both the devices' new state and the request that caused it.
        self._done = done
        self._news.change()
        if is_drain:
            # Last: an idle node stops now, and reports the request as done when it leaves.
            self._drain()


def without_weaker_sandbox(change: TermsChange) -> TermsChange:
    """The sandbox can be weakened only at this machine: otherwise a malicious server or a stolen
    session could run anything here.
    """
    # Local images may hold private data; pulled ones, and tasks without a limit of the kernel, may
    # fill the disk.
    change = replace(change, images=UNSET, pulls_images=UNSET, others_on_disk=UNSET)
    # Removing the key falls back to the option the provider was started with, which may be none.
    return replace(change, sandbox=UNSET) if change.sandbox in (None, "none") else change


def _load(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        # Requests are then repeated, which is safe: each names a target state.
        return {}
