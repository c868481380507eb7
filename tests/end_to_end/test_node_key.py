"""A machine that works for a wallet: it never knew the wallet's key, and answers for its card."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from potluck.model.device import Standing
from potluck.provider.announcement import Announcement, DeviceRegained, DeviceUnbound
from potluck.provider.detect.types import FoundDevice
from potluck.provider.devices.contest_watch import DeviceWatch
from potluck.provider.server.heartbeat import Pulse, beat_forever
from potluck.provider.server.node_key import NodeKey
from potluck.provider.server.server_client import NodeServerClient, open_node_client
from potluck.wire import routes
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess
from tests.provider.builders import settings_for
from tests.provider.server.connected_client import REGISTRATION, during, saying
from tests.wallets import Wallet

(CARD,) = REGISTRATION.description.devices
FOUND = {
    CARD.uuid: FoundDevice(CARD.kind, CARD.vendor, CARD.model, CARD.memory_bytes, CARD.interface)
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    with ServerProcess(
        directory, POTLUCK_CHALLENGE_SECONDS="3", POTLUCK_CONTEST_AWAY_SECONDS="3"
    ) as running:
        yield running


def test_the_program_that_runs_tasks_never_held_the_wallets_key(
    server: ServerProcess, tmp_path: Path
) -> None:
    secret = server.wallet.key
    with ProviderProcess(tmp_path, server, **FAST_PROVIDER) as provider:
        task_id = server.client().submit("print('works')")
        assert server.client().finished(task_id)["state"] == "succeeded"
        place = Path(f"/proc/{provider.process.pid}")
        variables = (place / "environ").read_bytes()
        opened = [str(path.readlink()) for path in (place / "fd").iterdir()]
        matches = _in_memory(place, secret, secret.hex().encode(), secret.hex().upper().encode())
        own_key = bytes.fromhex((tmp_path / "provider" / "node-key").read_text())
        assert _in_memory(place, own_key), "the search finds what is there"
    assert b"POTLUCK_WALLET" not in variables and secret.hex().encode() not in variables
    assert not [name for name in opened if "wallet" in name]
    assert not matches
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if secret.hex().encode() in path.read_bytes()]


def _in_memory(place: Path, *needles: bytes) -> bool:
    """Whether the process has any of these in memory that it can write to."""
    with (place / "mem").open("rb", 0) as memory:
        for line in (place / "maps").read_text().splitlines():
            span, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            start, end = (int(number, 16) for number in span.split("-"))
            memory.seek(start)
            try:
                data = memory.read(end - start)
            except OSError:
                continue  # a mapping that nobody can read, such as [vvar]
            if any(needle in data for needle in needles):
                return True
    return False


class Machine:
    """A provider's conversation with the real server, and what its owner hears."""

    def __init__(
        self, link: NodeServerClient, watch: DeviceWatch, announcements: list[Announcement]
    ) -> None:
        self.link, self.watch, self.said = link, watch, announcements

    async def until(self, announcement: Announcement) -> None:
        async with asyncio.timeout(30):
            while announcement not in self.said:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def machine(server: ServerProcess, name: str, beats: bool = True) -> AsyncIterator[Machine]:
    wallet, key = Wallet(name), Wallet(f"{name}'s machine")
    api = server.client(server.sign_in(wallet))
    api.put(routes.CHOOSE_ROLES.path, {"roles": ["provider"]})
    assert "id" in wallet.authorise(server.url, server.sign_in(wallet), key)
    announcements: list[Announcement] = []
    settings = settings_for(server.url, Path("/nonexistent"))
    async with open_node_client(
        settings, NodeKey(key.key), lambda: REGISTRATION, announcements.append, lambda _: None
    ) as link:
        registration = await link.register()
        watch = DeviceWatch(link, FOUND, announcements.append)
        watch.note(registration.unbound)
        heartbeats = beat_forever(link, saying(tuple), lambda _: True, watch.hear, 0.05, Pulse())
        duties = [heartbeats, watch.run()]
        if not beats:
            for duty in duties:
                duty.close()
            yield Machine(link, watch, announcements)
            return
        async with during(_all(duties)):
            yield Machine(link, watch, announcements)


async def _all(duties: list[Any]) -> None:
    await asyncio.gather(*duties)


async def test_a_contest_is_settled_by_computing_on_the_device(server: ServerProcess) -> None:
    contested, foreign = (
        DeviceUnbound(CARD.uuid, CARD.model, standing)
        for standing in (Standing.CONTESTED, Standing.FOREIGN)
    )
    async with machine(server, "owner") as owner:
        async with machine(server, "newcomer") as newcomer:
            await newcomer.until(foreign)
            assert newcomer.said == [contested, foreign], "the owner's machine answered"
        assert owner.said == []
        await owner.link.leave()
    async with machine(server, "sleeper", beats=False) as sleeper:
        async with machine(server, "wakeful") as wakeful:
            await wakeful.until(DeviceRegained(CARD.uuid, CARD.model))
            assert wakeful.said[0] == contested
        assert sleeper.said == []
