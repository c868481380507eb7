"""Blobs on this node: brought once, whole, within a limit, for each account its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from potluck.model.blob import BlobRef
from potluck.model.error import BadSettings, NotFound, SandboxUnavailable
from potluck.provider.files.blob_transfer import BlobTransfer
from potluck.provider.files.cache import FileCache
from potluck.provider.sandbox.driver import InputFailed
from potluck.provider.server.throttle import Throttle
from tests.provider.builders import a_lease
from tests.provider.fake_server import FakeServer
from tests.provider.server.connected_client import linked

DATA = bytes(range(256)) * 20


@asynccontextmanager
async def courier_to(server: FakeServer) -> AsyncIterator[BlobTransfer]:
    async with linked(server) as provider:
        yield BlobTransfer(provider.link, a_lease()[0], Throttle())


def blob(server: FakeServer, data: bytes) -> BlobRef:
    return BlobRef(server.files.keep(data), len(data))


async def test_a_blob_is_fetched_once_and_is_read_only(server: FakeServer, tmp_path: Path) -> None:
    cache, ref = FileCache(tmp_path, 10**6), blob(server, DATA)
    async with courier_to(server) as courier:
        first, second = await asyncio.gather(
            *(cache.hold(name, "account", [ref], courier) for name in ("one", "two"))
        )
        third_hold = await FileCache(tmp_path, 10**6).hold("three", "account", [ref], courier)
    path = first.path_of(ref)
    assert path == second.path_of(ref) == third_hold.path_of(ref)
    assert path.read_bytes() == DATA
    assert path.stat().st_mode & 0o777 == 0o555
    assert sorted([first.fetched_bytes, second.fetched_bytes]) == [0, len(DATA)]
    assert (third_hold.fetched_bytes, server.files.asked) == (0, [""])


async def test_a_download_resumes_after_a_cut_connection(
    server: FakeServer, tmp_path: Path
) -> None:
    ref = blob(server, DATA)
    server.files.cuts = [1000, 500]
    async with courier_to(server) as courier:
        inputs = await FileCache(tmp_path, 10**6).hold("one", "account", [ref], courier)
    assert inputs.path_of(ref).read_bytes() == DATA
    assert server.files.asked == ["", "bytes=1000-", "bytes=1500-"]


@pytest.mark.parametrize("ignores_ranges", [True, False])
async def test_a_download_resumes_after_the_provider_was_killed(
    server: FakeServer, tmp_path: Path, ignores_ranges: bool
) -> None:
    ref = blob(server, DATA)
    server.files.ignores_ranges = ignores_ranges
    path = FileCache(tmp_path, 10**6)._path("account", ref)
    path.parent.mkdir()
    path.with_name(f"{path.name}.part").write_bytes(DATA[:3000])
    async with courier_to(server) as courier:
        inputs = await FileCache(tmp_path, 10**6).hold("one", "account", [ref], courier)
    assert inputs.path_of(ref).read_bytes() == DATA
    assert server.files.asked == ["bytes=3000-"]
    assert [path.name for path in path.parent.iterdir()] == [ref.sha256]


async def test_a_download_follows_the_location_that_the_server_names(
    server: FakeServer, tmp_path: Path
) -> None:
    ref = blob(server, DATA)
    server.files.elsewhere = f"{server.url}/elsewhere/{ref.sha256}?signature=a%2Fb"
    async with courier_to(server) as courier:
        inputs = await FileCache(tmp_path, 10**6).hold("one", "account", [ref], courier)
        assert inputs.path_of(ref).read_bytes() == DATA
        server.files.elsewhere = "ftp://127.0.0.1/blob"
        with pytest.raises(BadSettings, match="redirects to an address"):
            await anext(courier.fetch(ref, 0))


async def test_a_damaged_download_is_repeated_and_finally_refused(
    server: FakeServer, tmp_path: Path
) -> None:
    ref, cache = blob(server, DATA), FileCache(tmp_path, 10**6)
    server.files.damages = 2
    async with courier_to(server) as courier:
        assert (await cache.hold("one", "account", [ref], courier)).path_of(ref).exists()
        # As a disk that loses bytes leaves it; noticed in the next life.
        path = cache._path("account", ref)
        path.chmod(0o700)
        path.write_bytes(DATA[:-1] + b"!")
        inputs = await FileCache(tmp_path, 10**6).hold("two", "account", [ref], courier)
        assert inputs.path_of(ref).read_bytes() == DATA
        other = blob(server, b"other")
        server.files.damages = 9
        with pytest.raises(InputFailed, match="arrived damaged three times"):
            await cache.hold("three", "account", [other], courier)


async def test_the_least_recently_used_file_is_evicted_and_files_in_use_stay(
    server: FakeServer, tmp_path: Path
) -> None:
    refs = [blob(server, bytes([number]) * 400) for number in range(4)]
    cache = FileCache(tmp_path, 1000)
    async with courier_to(server) as courier:
        for name, ref in zip("ab", refs, strict=False):
            await cache.hold(name, "account", [ref], courier)
        with pytest.raises(SandboxUnavailable, match="no room"):
            await cache.hold("c", "account", [refs[2]], courier)
        cache.share("a", "warm")
        cache.release("a")
        with pytest.raises(SandboxUnavailable, match="no room"):
            await cache.hold("c", "account", [refs[2]], courier)
        cache.release("warm")
        await cache.hold("c", "account", [refs[2]], courier)
        presence = [cache._path("account", ref).exists() for ref in refs]
        assert presence == [False, True, True, False]
        with pytest.raises(SandboxUnavailable, match="no room"):
            await cache.hold("d", "account", [blob(server, bytes(1001))], courier)


async def test_a_held_file_survives_making_room(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_ref, other = blob(server, bytes(400)), blob(server, bytes(700))
    cache, loop = FileCache(tmp_path, 1000), asyncio.get_running_loop()
    async with courier_to(server) as courier:
        path = (await cache.hold("early", "account", [kept_ref], courier)).path_of(kept_ref)
        cache.release("early")

        class Looked:
            """Somebody wants the file when all have been looked at and none has been removed."""

            st_size = 400

            @property
            def st_mtime(self) -> float:
                later_hold = cache.hold("late", "account", [kept_ref], courier)
                asyncio.run_coroutine_threadsafe(later_hold, loop).result(5)
                return 0.0

        monkeypatch.setattr(cache, "_files", lambda: iter([(path, Looked())]))
        with pytest.raises(SandboxUnavailable, match="no room"):
            await cache.hold("other", "account", [other], courier)
    assert path.exists()


async def test_an_endless_response_is_cut(server: FakeServer, tmp_path: Path) -> None:
    ref = blob(server, DATA)
    server.files.goes_on = True
    async with courier_to(server) as courier, asyncio.timeout(5):
        inputs = await FileCache(tmp_path, 10**6).hold("one", "account", [ref], courier)
    assert inputs.path_of(ref).read_bytes() == DATA


async def test_two_accounts_share_nothing(server: FakeServer, tmp_path: Path) -> None:
    ref, cache = blob(server, DATA), FileCache(tmp_path, 10**6)
    async with courier_to(server) as courier:
        first_hold = await cache.hold("one", "account", [ref], courier)
        other = await cache.hold("two", "another", [ref], courier)
    assert first_hold.path_of(ref).stat().st_ino != other.path_of(ref).stat().st_ino
    assert other.fetched_bytes == len(DATA)


async def test_a_refused_download_is_not_retried(server: FakeServer, tmp_path: Path) -> None:
    async with courier_to(server) as courier:
        with pytest.raises(NotFound):
            await FileCache(tmp_path, 10**6).hold(
                "one", "account", [BlobRef("ab" * 32, 3)], courier
            )
