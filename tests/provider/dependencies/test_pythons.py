"""Another Python than the node's own: fetched once, shared, and only where the owner allows it."""

import asyncio
import socket

import pytest

from potluck.model.error import BadSettings
from potluck.model.script import ScriptMetadata
from potluck.model.task import EndReason, Limits
from potluck.provider.dependencies.installer import find_uv
from potluck.provider.dependencies.outcome import SYSTEM_PYTHON, Environment, PrepareFailed
from potluck.provider.dependencies.python_list import (
    PythonList,
    choose_version,
    list_versions,
    newest_releases,
)
from potluck.provider.dependencies.pythons import PythonSource
from potluck.provider.dependencies.settings import PrepareSettings
from tests.provider.dependencies.conftest import PreparationHarness
from tests.provider.dependencies.package_index import LoopbackIndex
from tests.provider.dependencies.python_archive import MINOR, RELEASE, list_of, pack_python

_LATER = f">={MINOR}.50"
_VERSION = "import platform, sys; print(platform.python_version(), sys.prefix)"


class Mirror:
    """A list of one Python on loopback, and what a preparer with it does."""

    def __init__(self, preparation: PreparationHarness, index: LoopbackIndex) -> None:
        self.preparation, self.index = preparation, index
        self.is_allowed = True
        self.pack(pack_python())

    def pack(self, archive: bytes) -> None:
        self.index.replace("python.tar.gz", archive)
        self.list(f"http://127.0.0.1:{self.index.port}/files/python.tar.gz", archive)

    def list(self, url: str, archive: bytes = b"") -> None:
        self.index.replace("pythons.json", list_of(url, archive or pack_python()))
        source = PythonList(f"http://127.0.0.1:{self.index.port}/files/pythons.json")
        self.preparation.pythons = PythonSource(source, (RELEASE,), lambda: self.is_allowed)
        self.preparation.restart()

    def fetched(self) -> int:
        return self.index.requests.count("/files/python.tar.gz")

    async def prepare(
        self, *dependencies: str, account: str = "account_a", required: str = _LATER
    ) -> Environment:
        metadata = ScriptMetadata(required, dependencies)
        return await self.preparation.preparer.prepare(
            "attempt_1", account, metadata, Limits(), self.preparation.hear
        )


@pytest.fixture
def mirror(preparation: PreparationHarness, index: LoopbackIndex) -> Mirror:
    return Mirror(preparation, index)


async def test_a_python_is_fetched_once_and_shared_by_all_accounts(mirror: Mirror) -> None:
    environments = await asyncio.gather(
        mirror.prepare(), mirror.prepare(account="account_b", required=f"=={RELEASE}")
    )
    assert environments[0] == environments[1]
    mirror.preparation.restart()
    assert await mirror.prepare() == environments[0]
    assert mirror.fetched() == 1
    outcome, output = await mirror.preparation.run(environments[0], _VERSION)
    assert (outcome.reason, output) == (EndReason.COMPLETED, f"{RELEASE} /opt/fetched-python\n")
    assert f"Fetching Python {RELEASE}".encode() in mirror.preparation.said
    assert mirror.preparation.staged() == []


async def test_unused_environments_make_room_for_a_python(mirror: Mirror) -> None:
    await mirror.preparation.prepare("kind", name="attempt_0")
    mirror.preparation.restart(PrepareSettings(shelf_bytes=1))
    environment = await mirror.prepare()
    assert mirror.preparation.shelved() == [environment.mounts[0].source]


async def test_dependencies_are_installed_for_the_fetched_python(mirror: Mirror) -> None:
    environment = await mirror.prepare(f"kind; python_full_version == '{RELEASE}'")
    code = f"import kind; print(kind.word); {_VERSION}"
    _, output = await mirror.preparation.run(environment, code)
    assert output == f"please\n{RELEASE} /environment\n"
    _, output = await mirror.preparation.run(environment, "open('/opt/fetched-python/x', 'w')")
    assert "Read-only file system" in output


async def test_the_nodes_own_python_is_preferred(mirror: Mirror) -> None:
    assert await mirror.prepare(required=f">={MINOR}") is SYSTEM_PYTHON
    assert await mirror.prepare(required=MINOR) is SYSTEM_PYTHON
    assert mirror.fetched() == 0


async def test_pythons_are_fetched_only_if_the_owner_allows_it(mirror: Mirror) -> None:
    mirror.is_allowed = False
    with pytest.raises(PrepareFailed, match=f"requires Python {_LATER}, but the sandbox"):
        await mirror.prepare()
    assert mirror.fetched() == 0


async def test_after_an_unreachable_host_only_fetched_pythons_are_offered(
    mirror: Mirror, index: LoopbackIndex
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = listener.getsockname()[1]
    source = PythonList(f"http://127.0.0.1:{silent}/pythons.json")
    pythons = PythonSource(source, (RELEASE,), lambda: True)
    mirror.preparation.pythons = pythons
    mirror.preparation.restart()
    assert pythons.offered() == (RELEASE,)
    for _ in range(2):
        with pytest.raises(PrepareFailed, match=f"127.0.0.1:{silent}") as failed:
            await mirror.prepare()
        assert failed.value.reason is EndReason.SANDBOX_FAILED, "another node may reach it"
        assert pythons.offered() == () and "did not answer" in pythons.problem()


async def test_a_file_on_another_host_is_refused(mirror: Mirror) -> None:
    mirror.list("http://127.0.0.2:9/python.tar.gz")
    with pytest.raises(PrepareFailed, match=r"does not allow connections to 127\.0\.0\.2:9"):
        await mirror.prepare()
    assert mirror.preparation.staged() == []


async def test_a_changed_file_is_refused(mirror: Mirror) -> None:
    mirror.index.replace("python.tar.gz", pack_python()[:-1] + b"x")
    with pytest.raises(PrepareFailed, match=f"Python {RELEASE} could not be installed"):
        await mirror.prepare()
    assert mirror.preparation.staged() == [] and mirror.preparation.shelved() == []


async def test_a_python_that_does_not_start_is_not_kept(mirror: Mirror) -> None:
    mirror.pack(pack_python("/bin/false"))
    with pytest.raises(PrepareFailed, match=f"The fetched Python {RELEASE} fails") as failed:
        await mirror.prepare()
    assert failed.value.reason is EndReason.PREPARE_FAILED
    assert mirror.preparation.staged() == [] and mirror.preparation.shelved() == []


async def test_the_versions_are_those_of_the_list(mirror: Mirror) -> None:
    assert await list_versions(find_uv(), mirror.preparation.pythons.list) == (RELEASE,)
    mirror.index.replace("pythons.json", b"{")
    assert await list_versions(find_uv(), mirror.preparation.pythons.list) == ()
    usual = await list_versions(find_uv(), PythonList())  # what uv brings
    assert any(version.startswith("3.12.") for version in usual), usual


def test_the_newest_release_of_each_minor_version_is_offered() -> None:
    versions = ["3.13.1", "3.9.2", "3.13.10", "3.14.0rc1", "3.10.0"]
    assert newest_releases(versions) == ("3.9.2", "3.10.0", "3.13.10")


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        (">=3.12", "3.12.9"),
        ("<3.11", "3.10.4"),
        ("3.13", "3.13.1"),
        ("==3.13.*", "3.13.1"),
        ("==3.13.0", None),
    ],
)
def test_the_nearest_version_that_fits_is_chosen(required: str, expected: str | None) -> None:
    versions = ("3.9.2", "3.10.4", "3.12.9", "3.13.1")
    assert choose_version(versions, required, "3.11.2") == expected


def test_the_address_of_a_list_is_checked() -> None:
    for url in ("ftp://mirror/list.json", "https://a:b@mirror/list.json", "http://mirror:x/"):
        with pytest.raises(BadSettings, match="The list of Pythons"):
            PythonList(url)
