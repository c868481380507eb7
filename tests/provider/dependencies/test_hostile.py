"""Packages and indexes that mean harm: nothing of it leaves the sandbox of the installation."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.task import MIB, EndReason
from potluck.provider.dependencies.outcome import PrepareFailed
from potluck.provider.dependencies.settings import PrepareSettings
from tests.provider.dependencies.conftest import PreparationHarness
from tests.provider.dependencies.package_index import LoopbackIndex, loopback_index, sdist, wheel


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file on the host that hostile code tries to write, in a directory open to everybody."""
    nest = tmp_path / "nest"
    nest.mkdir()
    nest.chmod(0o777)
    return nest / "canary"


@pytest.fixture
def elsewhere() -> Iterator[LoopbackIndex]:
    """Another server, which nobody may reach."""
    with loopback_index() as served:
        yield served


def writing(*paths: str) -> str:
    """Code in one line that writes what it can; a .pth file is read line by line."""
    return (
        f'import os; exec("for path in {list(paths)!r}:\\n try:\\n'
        "  os.makedirs(os.path.dirname(path), exist_ok=True); open(path, 'w').close()\\n"
        ' except OSError: pass")\n'
    )


async def test_a_source_distribution_is_not_built(
    preparation: PreparationHarness, index: LoopbackIndex, canary: Path
) -> None:
    index.add("hostile", *sdist("hostile", writing(str(canary))))
    with pytest.raises(PrepareFailed, match="hostile") as error_info:
        await preparation.prepare("hostile")
    assert error_info.value.reason is EndReason.PREPARE_FAILED
    assert not canary.exists()
    assert preparation.shelved() == []


async def test_an_allowed_build_stays_in_the_sandbox(
    preparation: PreparationHarness, index: LoopbackIndex, elsewhere: LoopbackIndex, canary: Path
) -> None:
    knock = f"""
import urllib.request
for handlers in ([], [urllib.request.ProxyHandler({{}})]):
    try:
        urllib.request.build_opener(*handlers).open("http://127.0.0.1:{elsewhere.port}/", timeout=5)
    except OSError:
        pass
"""
    index.add("hostile", *sdist("hostile", writing(str(canary)) + knock))
    preparation.restart(PrepareSettings(allow_builds=True))
    environment = await preparation.prepare("hostile")
    _, output = await preparation.run(environment, "import hostile; print(hostile.built)")
    assert output == "True\n"
    assert not canary.exists()
    assert elsewhere.requests == []


async def test_a_pth_file_runs_only_inside(
    preparation: PreparationHarness, index: LoopbackIndex, canary: Path
) -> None:
    trap = writing(str(canary), "/work/caught")
    index.add("trap", *wheel("trap", {"trap.pth": trap.encode()}))
    environment = await preparation.prepare("trap")
    assert list(environment.mounts[0].source.rglob("trap.pth"))
    _, output = await preparation.run(environment, "import os; print(os.listdir('/work'))")
    assert "caught" in output  # it did run there
    assert not canary.exists()


async def test_an_index_can_not_send_us_elsewhere(
    preparation: PreparationHarness, index: LoopbackIndex, elsewhere: LoopbackIndex
) -> None:
    file_name, data = wheel("away", {"away.py": b""})
    elsewhere.add("away", file_name, data)
    index.redirect("/simple/away/", f"{elsewhere.url}/away/")
    index.add("linked", *wheel("linked", {}), base=f"http://127.0.0.1:{elsewhere.port}")
    for name in ("away", "linked"):
        with pytest.raises(PrepareFailed, match=f"allow connections to 127.0.0.1:{elsewhere.port}"):
            await preparation.prepare(name)
    assert elsewhere.requests == []


async def test_a_wheel_of_other_bytes_than_the_index_promised_is_refused(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    file_name, other = wheel("kind", {"kind.py": b"word = 'gotcha'\n"})
    await preparation.prepare("kind")
    index.replace(file_name, other)
    for path in preparation.shelved():
        path.parent.rename(preparation.directory / "gone")
    with pytest.raises(PrepareFailed, match="Hash mismatch"):
        await preparation.prepare("kind")
    index.requests.clear()
    with pytest.raises(PrepareFailed):
        await preparation.prepare("kind")
    assert "/files/kind-1.0-py3-none-any.whl.metadata" in index.requests  # resolved anew


async def test_an_environment_that_grows_too_large_is_ended(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    flood = "import time; open('/environment/flood', 'wb').write(bytes(2**24)); time.sleep(600)\n"
    index.add("flood", *sdist("flood", flood))
    preparation.restart(
        PrepareSettings(allow_builds=True, environment_bytes=8 * MIB, watch_seconds=0.1)
    )
    with pytest.raises(PrepareFailed, match="more than the 8,388,608 bytes"):
        await preparation.prepare("flood")
    assert preparation.staged() == [] and preparation.shelved() == []


async def test_too_many_files_are_refused(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    index.add("many", *wheel("many", {f"many/m{number}.txt": b"" for number in range(500)}))
    preparation.restart(PrepareSettings(environment_files=400))
    with pytest.raises(PrepareFailed, match="more than the 400 files"):
        await preparation.prepare("many")
    assert preparation.shelved() == []


async def test_a_link_that_leads_outside_is_refused(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    link = "import os; os.path.lexists('/environment/x') or os.symlink('/etc', '/environment/x')\n"
    index.add("link", *sdist("link", link))
    preparation.restart(PrepareSettings(allow_builds=True))
    with pytest.raises(PrepareFailed, match="a link that leads out of it"):
        await preparation.prepare("link")
    assert preparation.staged() == [] and preparation.shelved() == []


async def test_a_download_over_the_limit_is_ended(
    preparation: PreparationHarness, index: LoopbackIndex
) -> None:
    noise = b"".join(number.to_bytes(8) for number in range(100_000))
    index.add("large", *wheel("large", {"large.bin": noise}))
    preparation.restart(PrepareSettings(download_bytes=50_000))
    with pytest.raises(PrepareFailed, match="exceed the download limit of this node"):
        await preparation.prepare("large")


_LIFE = """
import asyncio, sys
from pathlib import Path
from potluck.provider.dependencies.package_index import PackageIndex
from tests.provider.dependencies.conftest import BubblewrapDriver, PreparationHarness
directory, url = Path(sys.argv[1]), sys.argv[2]
driver = BubblewrapDriver(directory / "sandbox", "node")
harness = PreparationHarness(driver, directory / "environments", PackageIndex(url))
asyncio.run(harness.prepare("kind", "slow"))
"""


async def test_a_kill_in_the_middle_leaves_nothing_that_passes_for_complete(
    preparation: PreparationHarness, index: LoopbackIndex, tmp_path: Path
) -> None:
    file_name, data = wheel("slow", {"slow.py": b"quick = True\n"})
    index.add("slow", file_name, data)
    index.stall(file_name)
    life = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _LIFE, str(tmp_path), index.url), cwd=Path(__file__).parents[3]
    )
    try:
        assert await asyncio.to_thread(index.asked.wait, 30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            life.kill()
        await life.wait()
    assert list(
        preparation.directory.rglob("pyvenv.cfg")
    )  # half an environment, in the staging area
    assert len(preparation.staged()) == 2
    await preparation.driver.reap()
    await preparation.preparer.reap()
    preparation.egress.reap()
    assert preparation.staged() == [] and preparation.shelved() == []
    index.serve_again()
    environment = await preparation.prepare("kind", "slow")
    assert (await preparation.run(environment, "import slow; print(slow.quick)"))[1] == "True\n"
