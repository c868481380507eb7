"""A script's dependencies: installed once, kept for one account, and explained when they fail."""

import asyncio
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from potluck.model.script import ScriptMetadata
from potluck.model.task import GIB, EndReason, Limits
from potluck.provider.dependencies.outcome import SYSTEM_PYTHON, PrepareFailed
from potluck.provider.dependencies.package_index import PackageIndex
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from tests.provider.dependencies.conftest import Kitchen
from tests.provider.dependencies.package_index import LoopbackIndex, wheel


async def test_a_dependency_can_be_imported_inside(kitchen: Kitchen) -> None:
    environment = await kitchen.prepare("kind>=1")
    outcome, output = await kitchen.run(environment, "import kind; print(kind.word)")
    assert (outcome.reason, output) == (EndReason.COMPLETED, "please\n")
    assert b" + kind==1.0" in kitchen.said
    assert kitchen.staged() == []


async def test_a_script_without_dependencies_costs_nothing(kitchen: Kitchen) -> None:
    assert await kitchen.prepare() is SYSTEM_PYTHON
    assert not kitchen.directory.exists()


async def test_the_environment_is_read_only_and_ours(kitchen: Kitchen) -> None:
    environment = await kitchen.prepare("kind")
    outcome, output = await kitchen.run(environment, "open('/environment/x', 'w')")
    assert outcome.reason is EndReason.EXIT_STATUS and "Read-only file system" in output
    own_uid = kitchen.directory.stat().st_uid
    for path in [environment.mounts[0].source, *environment.mounts[0].source.rglob("*")]:
        assert path.lstat().st_uid == own_uid
        assert path.is_symlink() or path.lstat().st_mode & 0o7022 == 0


async def test_bytecode_is_compiled_once_and_for_all(kitchen: Kitchen) -> None:
    environment = await kitchen.prepare("kind")
    _, output = await kitchen.run(
        environment, "import kind, os; print(os.path.exists(kind.__cached__))"
    )
    assert output == "True\n"


async def test_the_same_script_again_asks_the_index_for_nothing(
    kitchen: Kitchen, index: LoopbackIndex
) -> None:
    first = await kitchen.prepare("kind")
    index.requests.clear()
    assert await kitchen.prepare("kind", name="attempt_2") == first
    kitchen.restart()
    assert await kitchen.prepare("kind", name="attempt_3") == first
    assert index.requests == []


async def test_an_old_resolution_is_asked_again_and_the_environment_kept(
    kitchen: Kitchen, index: LoopbackIndex
) -> None:
    first = await kitchen.prepare("kind")
    kitchen.restart(PrepareSettings(lock_seconds=0.0))
    index.requests.clear()
    assert await kitchen.prepare("kind") == first
    assert "/simple/kind/" in index.requests
    assert kitchen.staged() == []


async def test_a_newer_version_makes_another_environment(
    kitchen: Kitchen, index: LoopbackIndex
) -> None:
    first = await kitchen.prepare("kind")
    index.add("kind", *wheel("kind", {"kind.py": b"word = 'thanks'\n"}, version="2.0"))
    kitchen.restart(PrepareSettings(lock_seconds=0.0))
    second = await kitchen.prepare("kind")
    assert second != first
    assert (await kitchen.run(second, "import kind; print(kind.word)"))[1] == "thanks\n"


async def test_accounts_share_nothing(kitchen: Kitchen) -> None:
    first = await kitchen.prepare("kind", account="account_a")
    other = await kitchen.prepare("kind", account="account_b")
    assert first.mounts[0].source != other.mounts[0].source
    files = [
        {path.lstat().st_ino for path in environment.mounts[0].source.rglob("*")}
        for environment in (first, other)
    ]
    assert not files[0] & files[1]


async def test_an_account_id_names_no_path(kitchen: Kitchen) -> None:
    environment = await kitchen.prepare("kind", account="../../../escape")
    assert environment.mounts[0].source.is_relative_to(kitchen.directory / "accounts")
    assert not list(kitchen.directory.parent.rglob("escape"))


async def test_concurrent_preparations_of_one_environment_share_the_work(kitchen: Kitchen) -> None:
    preparations = [kitchen.prepare("kind", name=f"attempt_{number}") for number in range(4)]
    environments = await asyncio.gather(*preparations)
    assert len({environment.mounts[0].source for environment in environments}) == 1
    assert kitchen.said.count(b" + kind==1.0") == 1


async def test_different_requirements_may_lead_to_one_environment(kitchen: Kitchen) -> None:
    first, other = await asyncio.gather(
        kitchen.prepare("kind>=1", name="attempt_1"), kitchen.prepare("kind<2", name="attempt_2")
    )
    assert first == other
    assert kitchen.said.count(b" + kind==1.0") == 1


async def test_a_dependency_for_another_platform_only_is_left_out(kitchen: Kitchen) -> None:
    assert await kitchen.prepare("kind; sys_platform == 'win32'") is SYSTEM_PYTHON


async def test_an_unknown_package_is_named(kitchen: Kitchen) -> None:
    with pytest.raises(PrepareFailed, match="no-such-thing was not found") as error_info:
        await kitchen.prepare("no-such-thing")
    assert error_info.value.reason is EndReason.PREPARE_FAILED
    assert error_info.value.detail.isprintable()
    assert kitchen.staged() == [] and kitchen.shelved() == []


async def test_another_python_than_the_sandbox_has_is_refused(kitchen: Kitchen) -> None:
    metadata = ScriptMetadata(">=4", ())
    with pytest.raises(PrepareFailed, match=r"requires Python >=4, but .* has Python 3\.\d+"):
        await kitchen.preparer.prepare("a", "account_a", metadata, Limits(), kitchen.hear)
    metadata = ScriptMetadata(">=3.9", ())
    assert (
        await kitchen.preparer.prepare("a", "account_a", metadata, Limits(), kitchen.hear)
        is SYSTEM_PYTHON
    )


async def test_the_time_limit_ends_everything(kitchen: Kitchen, index: LoopbackIndex) -> None:
    index.stall("kind-1.0-py3-none-any.whl")
    with pytest.raises(PrepareFailed, match=r"longer than 1\.5 s") as error_info:
        await kitchen.prepare("kind", seconds=1.5)
    assert error_info.value.reason is EndReason.PREPARE_TIME_LIMIT
    assert kitchen.staged() == [] and kitchen.shelved() == []


async def test_cancelling_ends_everything(kitchen: Kitchen, index: LoopbackIndex) -> None:
    index.stall("kind-1.0-py3-none-any.whl")
    task = asyncio.create_task(kitchen.prepare("kind"))
    assert await asyncio.to_thread(index.asked.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kitchen.staged() == [] and kitchen.shelved() == []


async def test_the_least_recently_used_go_when_space_is_short(
    kitchen: Kitchen, index: LoopbackIndex
) -> None:
    index.add("other", *wheel("other", {"other.py": b""}))
    kitchen.restart(PrepareSettings(shelf_bytes=1))
    held_environment = await kitchen.prepare("kind", name="attempt_1")
    await kitchen.prepare("other", name="attempt_2")
    assert len(kitchen.shelved()) == 2  # both are in use, whatever the capacity
    kitchen.preparer.release("attempt_2")
    await kitchen.prepare("kind; python_version > '3'", name="attempt_3")
    assert kitchen.shelved() == [held_environment.mounts[0].source]
    assert kitchen.staged() == []


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def free_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the disk look as if this much of a terabyte were free."""

    def pretend(free_bytes: int) -> None:
        disk = (1024 * GIB, 0, free_bytes)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(*disk))

    return pretend


async def test_a_disk_that_is_almost_full_is_not_filled(
    kitchen: Kitchen, free_bytes: Callable[[int], None]
) -> None:
    free_bytes(5 * GIB - 1)
    with pytest.raises(PrepareFailed, match=r"no room .* only 5,119 MiB .* free") as error_info:
        await kitchen.prepare("kind")
    assert error_info.value.reason is EndReason.SANDBOX_FAILED
    assert kitchen.staged() == [] and kitchen.shelved() == []
    free_bytes(5 * GIB)
    await kitchen.prepare("kind")


async def test_a_disk_that_fills_meanwhile_ends_the_installation(
    kitchen: Kitchen, index: LoopbackIndex, free_bytes: Callable[[int], None]
) -> None:
    index.stall("kind-1.0-py3-none-any.whl")
    free_bytes(100 * GIB)
    task = asyncio.create_task(kitchen.prepare("kind"))
    assert await asyncio.to_thread(index.asked.wait, 30)
    free_bytes(GIB)
    with pytest.raises(PrepareFailed, match="no room"):
        await task


async def test_unused_environments_are_removed_when_the_disk_is_almost_full(
    kitchen: Kitchen, index: LoopbackIndex, free_bytes: Callable[[int], None]
) -> None:
    index.add("other", *wheel("other", {"other.py": b""}))
    await kitchen.prepare("kind", name="attempt_1")
    held_environment = await kitchen.prepare("other", name="attempt_2")
    kitchen.preparer.release("attempt_1")
    free_bytes(GIB)
    with pytest.raises(PrepareFailed, match="no room"):
        await kitchen.prepare("kind<3", name="attempt_3")
    assert kitchen.shelved() == [held_environment.mounts[0].source]


async def test_an_owner_without_a_sandbox_is_served_too(kitchen: Kitchen, tmp_path: Path) -> None:
    kitchen.driver = UnconfinedDriver(tmp_path / "unconfined", "node")
    kitchen.directory = tmp_path / ("long" * 30) / "environments"
    kitchen.restart()
    environment = await kitchen.prepare("kind")
    _, output = await kitchen.run(environment, "import kind; print(kind.word)")
    assert output == "please\n"


async def test_a_tiny_package_of_the_real_index(kitchen: Kitchen) -> None:
    if not _reachable("pypi.org", 443):
        pytest.skip("pypi.org does not answer within 3 s")
    kitchen.index = PackageIndex()
    kitchen.restart()
    environment = await kitchen.prepare("six")
    outcome, output = await kitchen.run(environment, "import six; print(six.__name__)")
    assert (outcome.reason, output) == (EndReason.COMPLETED, "six\n")


def _reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=3).close()
    except OSError:
        return False
    return True
