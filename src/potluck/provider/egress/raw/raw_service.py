"""The provider's side of a raw network: grants bytes, resolves names, and tells which addresses are
its own, to the packet relay of one sandbox."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path

import msgspec

from potluck.local.network.name_lookup import Busy, Resolver
from potluck.model.error import InvalidInput
from potluck.model.network.public_address import check_public_name
from potluck.provider.egress.byte_budget import ByteBudget
from potluck.provider.egress.guard import OwnAddresses
from potluck.provider.egress.raw.messages import (
    LINE_BYTES,
    FoundAddresses,
    FromRelay,
    GrantedBytes,
    OwnAddressList,
    PacketRefused,
    ToRelay,
    UnusedBytes,
    WantAddresses,
    WantBytes,
)
from potluck.provider.egress.serving_socket import Connections, serving_socket
from potluck.provider.server.throttle import Throttle

_LAST_SECONDS = 1.0
_OWN_SECONDS = 5.0  # how long a new address of this machine may stay unnoticed


class RawService:
    """One for each sandbox; `name` is its attempt."""

    def __init__(
        self, name: str, budget: ByteBudget, throttle: Throttle, names: Resolver, own: OwnAddresses
    ) -> None:
        self.budget = budget
        self.refused: list[str] = []  # none: every host is allowed
        self.not_public: list[str] = []
        self.unreachable: list[str] = []  # none: it does not look at answers
        self._name = name
        self._throttle = throttle
        self._names = names
        self._own = own

    @contextlib.asynccontextmanager
    async def serving(self, parent: Path) -> AsyncIterator[Path]:
        """Serves on a new socket, whose path it yields."""
        connections: Connections = set()
        async with serving_socket(parent, self._serve, connections, LINE_BYTES) as path:
            yield path
            if connections:  # the relay has ended: what it said last is still to be read
                await asyncio.wait(connections, timeout=_LAST_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(message: ToRelay) -> None:
            writer.write(msgspec.json.encode(message) + b"\n")

        async def tell_own() -> None:
            while True:
                say(OwnAddressList(tuple(map(str, self._own.list()))))
                await asyncio.sleep(_OWN_SECONDS)

        async def answer(message: WantBytes | WantAddresses) -> None:
            if isinstance(message, WantBytes):
                say(await self._grant(message))
            else:
                say(FoundAddresses(message.number, await self._resolve(message.name)))

        async with asyncio.TaskGroup() as answers:
            telling = answers.create_task(tell_own())
            while line := await _read_line(reader):
                match msgspec.json.decode(line, type=FromRelay):
                    case PacketRefused(endpoint=endpoint):
                        self.not_public.append(endpoint)
                    case UnusedBytes(unused=unused):
                        self.budget.give_back(unused)
                    case message:
                        answers.create_task(answer(message))
            telling.cancel()

    async def _grant(self, message: WantBytes) -> GrantedBytes:
        granted = self.budget.spend(message.needed)
        if granted < message.needed:
            return GrantedBytes(0, is_over=True)
        granted += self.budget.advance(self._throttle.piece_bytes(message.ahead))
        await self._throttle.take(granted)
        return GrantedBytes(granted)

    async def _resolve(self, name: str) -> tuple[str, ...] | None:
        """As the proxy does: public names only. Addresses are checked packet by packet."""
        try:
            check_public_name(name)
            addresses = await self._names.addresses(f"{name}.", 0, self._name)
            return tuple(str(ip_address(text)) for text in addresses)
        except (InvalidInput, OSError, UnicodeError, ValueError, Busy):
            return None


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Empty at the end, also if the relay was killed."""
    try:
        return await reader.readline()
    except ConnectionResetError:
        return b""
