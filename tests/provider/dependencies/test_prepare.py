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
from tests.provider.dependencies.conftest import PreparationHarness
from tests.provider.dependencies.package_index import LoopbackIndex, wheel


async def test_a_dependency_can_be_imported_inside(preparation: PreparationHarness) -> None:
    environment = await preparation.prepare("kind>=1")
    outcome, output = await preparation.run(environment, "import kind; print(kind.word)")
    assert (outcome.reason, output) == (EndReason.COMPLETED, "please\n")
    assert b" + kind==1.0" in preparation.said
    assert preparation.staged() == []


async def test_a_script_without_dependencies_costs_nothing(preparation: PreparationHarness) -> None:
    assert await preparation.prepare() is SYSTEM_PYTHON
    assert not preparation.directory.exists()


async def test_the_environment_is_read_only_and_ours(preparation: PreparationHarness) -> None:
    environment = await preparation.prepare("kind")
    outcome, output = await preparation.run(environment, "open('/environment/x', 'w')")
    assert outcome.reason is EndReason.EXIT_STATUS and "Read-only file system" in output
    own_uid = preparation.directory.stat().st_uid
    for path in [environment.mounts[0].source, *environment.mounts[0].source.rglob("*")]:
        assert path.lstat().st_uid == own_uid
        assert path.is_symlink() or path.lstat().st_mode & 0o7022 == 0


async def test_bytecode_is_compiled_once_and_for_all(preparation: PreparationHarness) -> None:
    environment = await preparation.prepare("kind")
    _, output = await preparation.run(
        environment, "import kind, os; print(os.path.exists(kind.__cached__))"
    )
    assert output == "True\n"


async def test_the_same_script_again_asks_the_index_for_nothing(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    first = await preparation.prepare("kind")
    index.requests.clear()
    assert await preparation.prepare("kind", name="attempt_2") == first
    preparation.restart()
    assert await preparation.prepare("kind", name="attempt_3") == first
    assert index.requests == []


async def test_an_old_resolution_is_renewed_and_the_environment_kept(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    first = await preparation.prepare("kind")
    preparation.restart(PrepareSettings(lock_seconds=0.0))
    index.requests.clear()
    assert await preparation.prepare("kind") == first
    assert "/simple/kind/" in index.requests
    assert preparation.staged() == []


async def test_a_newer_version_makes_another_environment(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    first = await preparation.prepare("kind")
    index.add("kind", *wheel("kind", {"kind.py": b"word = 'thanks'\n"}, version="2.0"))
    preparation.restart(PrepareSettings(lock_seconds=0.0))
    second = await preparation.prepare("kind")
    assert second != first
    assert (await preparation.run(second, "import kind; print(kind.word)"))[1] == "thanks\n"


async def test_accounts_share_nothing(preparation: PreparationHarness) -> None:
    first = await preparation.prepare("kind", account="account_a")
    other = await preparation.prepare("kind", account="account_b")
    assert first.mounts[0].source != other.mounts[0].source
    files = [
        {path.lstat().st_ino for path in environment.mounts[0].source.rglob("*")}
        for environment in (first, other)
    ]
    assert not files[0] & files[1]


async def test_an_account_id_names_no_path(preparation: PreparationHarness) -> None:
    environment = await preparation.prepare("kind", account="../../../escape")
    assert environment.mounts[0].source.is_relative_to(preparation.directory / "accounts")
    assert not list(preparation.directory.parent.rglob("escape"))


async def test_concurrent_preparations_of_one_environment_share_the_work(
    preparation: PreparationHarness,
) -> None:
    preparations = [preparation.prepare("kind", name=f"attempt_{number}") for number in range(4)]
    environments = await asyncio.gather(*preparations)
    assert len({environment.mounts[0].source for environment in environments}) == 1
    assert preparation.said.count(b" + kind==1.0") == 1


async def test_different_requirements_may_lead_to_one_environment(
    preparation: PreparationHarness,
) -> None:
    first, other = await asyncio.gather(
        preparation.prepare("kind>=1", name="attempt_1"),
        preparation.prepare("kind<2", name="attempt_2"),
    )
    assert first == other
    assert preparation.said.count(b" + kind==1.0") == 1


async def test_a_dependency_for_another_platform_only_is_left_out(
    preparation: PreparationHarness,
) -> None:
    assert await preparation.prepare("kind; sys_platform == 'win32'") is SYSTEM_PYTHON


async def test_an_unknown_package_is_named(preparation: PreparationHarness) -> None:
    with pytest.raises(PrepareFailed, match="no-such-thing was not found") as error_info:
        await preparation.prepare("no-such-thing")
    assert error_info.value.reason is EndReason.PREPARE_FAILED
    assert error_info.value.detail.isprintable()
    assert preparation.staged() == [] and preparation.shelved() == []


async def test_another_python_than_the_sandbox_has_is_refused(
    preparation: PreparationHarness,
) -> None:
    metadata = ScriptMetadata(">=4", ())
    with pytest.raises(PrepareFailed, match=r"requires Python >=4, but .* has Python 3\.\d+"):
        await preparation.preparer.prepare("a", "account_a", metadata, Limits(), preparation.hear)
    metadata = ScriptMetadata(">=3.9", ())
    assert (
        await preparation.preparer.prepare("a", "account_a", metadata, Limits(), preparation.hear)
        is SYSTEM_PYTHON
    )


async def test_the_time_limit_ends_everything(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    index.stall("kind-1.0-py3-none-any.whl")
    with pytest.raises(PrepareFailed, match=r"longer than 1\.5 s") as error_info:
        await preparation.prepare("kind", seconds=1.5)
    assert error_info.value.reason is EndReason.PREPARE_TIME_LIMIT
    assert preparation.staged() == [] and preparation.shelved() == []


async def test_cancelling_ends_everything(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    index.stall("kind-1.0-py3-none-any.whl")
    task = asyncio.create_task(preparation.prepare("kind"))
    assert await asyncio.to_thread(index.asked.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert preparation.staged() == [] and preparation.shelved() == []


async def test_the_least_recently_used_go_when_space_is_short(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    index.add("other", *wheel("other", {"other.py": b""}))
    preparation.restart(PrepareSettings(shelf_bytes=1))
    held_environment = await preparation.prepare("kind", name="attempt_1")
    await preparation.prepare("other", name="attempt_2")
    assert len(preparation.shelved()) == 2  # both are in use, whatever the capacity
    preparation.preparer.release("attempt_2")
    await preparation.prepare("kind; python_version > '3'", name="attempt_3")
    assert preparation.shelved() == [held_environment.mounts[0].source]
    assert preparation.staged() == []


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
    preparation: PreparationHarness, free_bytes: Callable[[int], None]
) -> None:
    free_bytes(5 * GIB - 1)
    with pytest.raises(PrepareFailed, match=r"no room .* only 5,119 MiB .* free") as error_info:
        await preparation.prepare("kind")
    assert error_info.value.reason is EndReason.SANDBOX_FAILED
    assert preparation.staged() == [] and preparation.shelved() == []
    free_bytes(5 * GIB)
    await preparation.prepare("kind")


async def test_a_disk_that_fills_meanwhile_ends_the_installation(
    preparation: PreparationHarness, index: LoopbackIndex, free_bytes: Callable[[int], None]
) -> None:
    index.stall("kind-1.0-py3-none-any.whl")
    free_bytes(100 * GIB)
    task = asyncio.create_task(preparation.prepare("kind"))
    assert await asyncio.to_thread(index.asked.wait, 30)
    free_bytes(GIB)
    with pytest.raises(PrepareFailed, match="no room"):
        await task


async def test_unused_environments_are_removed_when_the_disk_is_almost_full(
    preparation: PreparationHarness, index: LoopbackIndex, free_bytes: Callable[[int], None]
) -> None:
    index.add("other", *wheel("other", {"other.py": b""}))
    await preparation.prepare("kind", name="attempt_1")
    held_environment = await preparation.prepare("other", name="attempt_2")
    preparation.preparer.release("attempt_1")
    free_bytes(GIB)
    with pytest.raises(PrepareFailed, match="no room"):
        await preparation.prepare("kind<3", name="attempt_3")
    assert preparation.shelved() == [held_environment.mounts[0].source]


async def test_an_owner_without_a_sandbox_is_served_too(
    preparation: PreparationHarness, tmp_path: Path
) -> None:
    preparation.driver = UnconfinedDriver(tmp_path / "unconfined", "node")
    preparation.directory = tmp_path / ("long" * 30) / "environments"
    preparation.restart()
    environment = await preparation.prepare("kind")
    _, output = await preparation.run(environment, "import kind; print(kind.word)")
    assert output == "please\n"


async def test_a_tiny_package_of_the_real_index(preparation: PreparationHarness) -> None:
    if not _reachable("pypi.org", 443):
        pytest.skip("pypi.org does not answer within 3 s")
    preparation.index = PackageIndex()
    preparation.restart()
    environment = await preparation.prepare("six")
    outcome, output = await preparation.run(environment, "import six; print(six.__name__)")
    assert (outcome.reason, output) == (EndReason.COMPLETED, "six\n")


def _reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=3).close()
    except OSError:
        return False
    return True
