"""What the owner asks for from elsewhere: carried out in order, each once, also over restarts.

A change is written into the owner's file, as a command on this machine would. A file that is wrong
is the owner's to mend; until then the wish is not acknowledged, and the server tells it again.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog

from potluck.local.durable import write_whole
from potluck.model.error import BadSettings
from potluck.model.ids import NodeId
from potluck.model.terms import Order, TermsChange
from potluck.provider.owner.file import change_file, read_file
from potluck.provider.owner.watch import Watch
from potluck.provider.told import Told
from potluck.wire.wish import OwnerOrder, Wish

log = structlog.get_logger()


class Wishes:
    """Of one node at one server."""

    def __init__(
        self,
        data_directory: Path,
        node_id: Callable[[], NodeId],
        terms_file: Path,
        watch: Watch,
        drain: Callable[[], None],
        news: Told,
    ) -> None:
        self._path = data_directory / "wishes.json"
        self._node_id = node_id
        self._terms_file = terms_file
        self._watch = watch
        self._drain = drain
        self._news = news
        self._done = _load(self._path)
        self._told: asyncio.Queue[Sequence[Wish]] = asyncio.Queue()

    def number(self) -> int:
        """Of the last one that was carried out."""
        return self._done.get(self._node_id(), 0)

    def hear(self, wishes: Sequence[Wish]) -> None:
        if wishes:
            self._told.put_nowait(wishes)

    async def run(self) -> None:
        """Beside the heartbeats, which wait for no disk."""
        while True:
            for wish in sorted(await self._told.get(), key=lambda each: each.number):
                if wish.number > self.number() and not await self._carry_out(wish):
                    break

    async def _carry_out(self, wish: Wish) -> bool:
        """False where the file is wrong; what comes after has to wait for it."""
        is_written = True
        if wish.change is not None:
            is_written = await self._change(wish.change)
        if wish.order is not None:
            is_written = await self._obey(wish.order)
        if not is_written:
            return False
        # The next heartbeat says both: how the devices are now, and which wish that is due to.
        self._done = self._done | {self._node_id(): wish.number}
        await asyncio.to_thread(write_whole, self._path, msgspec.json.encode(self._done))
        self._news.change()
        return True

    async def _change(self, change: TermsChange) -> bool:
        try:
            await asyncio.to_thread(change_file, self._terms_file, change)
        except BadSettings as error:
            log.warning("the owner's file is not changed", detail=error.detail, hint=error.hint)
            return self._is_readable()
        self._watch.reread()
        return True

    def _is_readable(self) -> bool:
        """What can not be written into a file that is right will never be: it is given up."""
        try:
            read_file(self._terms_file)
        except BadSettings:
            return False
        return True

    async def _obey(self, order: OwnerOrder) -> bool:
        if order.order is Order.DRAIN:
            self._drain()
            return True
        is_paused = await self._change(TermsChange(devices=order.devices, is_paused=True))
        self._watch.want_back(order.devices)
        return is_paused


def _load(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        # Carried out once more: each says what shall be, not what shall change.
        return {}
