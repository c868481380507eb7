"""What the owner asks for from elsewhere: carried out in order, each once, also over restarts.

A change is written into the owner's file, as a command on this machine would do it.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from potluck.local.durable_files import write_whole
from potluck.model.ids import NodeId
from potluck.model.terms import Order, TermsChange
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.owner.owner_duties import AvailabilityDuty
from potluck.wire.owner_request import Wish


class RemoteRequests:
    """Of one node at one server."""

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
        self._told: asyncio.Queue[Sequence[Wish]] = asyncio.Queue()

    def number(self) -> int:
        """Of the last one that was carried out."""
        return self._done.get(self._node_id() or "", 0)

    def hear(self, wishes: Sequence[Wish]) -> None:
        if wishes:
            self._told.put_nowait(wishes)

    async def run(self) -> None:
        """Beside the heartbeats, which wait for no disk."""
        while True:
            for wish in sorted(await self._told.get(), key=lambda each: each.number):
                if wish.number > self.number():
                    await self._carry_out(wish)

    async def _carry_out(self, wish: Wish) -> None:
        if wish.change is not None:
            self._watch.change(within_walls(wish.change))
        is_drain = wish.order is not None and wish.order.order is Order.DRAIN
        if wish.order is not None and not is_drain:
            self._watch.reclaim(wish.order.devices)
        done = self._done | {self._node_id() or "": wish.number}
        await asyncio.to_thread(write_whole, self._path, msgspec.json.encode(done))
        # The next heartbeat says both: how the devices are now, and which wish that is due to.
        self._done = done
        self._news.change()
        if is_drain:
            # At last: a node that is idle ends by it, and says then what it has carried out.
            self._drain()


def within_walls(change: TermsChange) -> TermsChange:
    """Walls are taken down at this machine alone: not by whoever speaks for the server, or has
    stolen a session, and could then run anything here.
    """
    # What lies in the images of a machine is its owner's, and what is fetched fills his disk.
    change = replace(change, images=UNSET, pulls_images=UNSET)
    # Without the key it would be what the provider was started with, which may be none, too.
    return replace(change, sandbox=UNSET) if change.sandbox in (None, "none") else change


def _load(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        # Carried out once more: each says what shall be, not what shall change.
        return {}
