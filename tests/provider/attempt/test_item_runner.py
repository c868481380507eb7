"""The items of a range: each behind its own walls, each with an outcome that is told once."""

import asyncio
import signal
import tarfile
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef
from potluck.model.task import MIB, EndReason, Limits, Requirements
from potluck.model.task_spec import CommandSpec, FunctionSpec
from potluck.provider.attempt.item_runner import RangeRun
from potluck.provider.attempt.journal import _read
from potluck.provider.attempt.kinds import PreparedAttempt, plan_of
from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.attempt.log_limit import limited_log
from potluck.provider.attempt.mask import Mask, MaskedLog
from potluck.provider.dependencies.outcome import SYSTEM_PYTHON
from potluck.provider.event import Event
from potluck.provider.expose.exposed import Exposed
from potluck.provider.files.work_directory import AttemptFiles, InputFiles
from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver
from potluck.provider.sandbox.driver import Driver, StopRequest
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from potluck.wire.provider import Finished, Grant, ItemOutcome, ItemsDone
from tests.provider.builders import a_grant, idle_freight, lease_of
from tests.provider.fake_server import FakeServer
from tests.provider.process import provider_process
from tests.provider.test_daemon import providing
from tests.provider.test_process import until_gone

# Each item behaves in its own way; what the last one left is not there any more.
MANNERS = """
import os, subprocess, sys, time
item = int(os.environ["POTLUCK_ITEM"])
def manner(number):
    return item == number
if manner(1): sys.exit(3)
if manner(2): fill = bytearray(400 * 2**20)
if manner(3): time.sleep(60)
if manner(4): os.kill(os.getpid(), 11)
if manner(5): open("big", "wb").write(bytes(32 * 2**20))
if manner(6):
    subprocess.Popen(["sleep", "100"])
    open("left", "w").write("behind")
    open("script.py", "w").write("broken(")
if manner(7): raise ValueError("seven")
if manner(8):
    os.kill(os.getppid(), 9)
    time.sleep(60)
if manner(9):
    while True:
        os.fork()
if manner(10):
    for _ in range(1000): print("x" * 1000)
if manner(11): print(sorted(os.listdir(".")), os.environ["POTLUCK_ITEMS"], sys.argv, __name__)
"""
REASONS = {
    0: EndReason.COMPLETED,
    1: EndReason.EXIT_STATUS,
    2: EndReason.MEMORY_LIMIT,
    3: EndReason.TIME_LIMIT,
    4: EndReason.SIGNAL,
    5: EndReason.DISK_LIMIT,
    6: EndReason.COMPLETED,
    7: EndReason.EXIT_STATUS,
    8: EndReason.SIGNAL,
    9: EndReason.PROCESS_LIMIT,
    10: EndReason.COMPLETED,  # it writes more than the log limit, which fails no item
    11: EndReason.COMPLETED,
}


NONE = InputFiles()


class Ran:
    """A range that was run to its end in one of the sandboxes."""

    def __init__(self, driver: Driver, directory: Path) -> None:
        self._driver = driver
        self.freight = idle_freight(directory)
        self.spool = LogSpool.open(directory, a_grant().attempt_id)
        self.buffer = LogBuffer(self.spool, 0.1)
        self.outcomes: list[ItemOutcome] = []
        self.recall = StopRequest()

    async def run(self, grant: Grant, inputs: InputFiles = NONE) -> EndReason:
        events: list[Event] = []
        log = limited_log(self.buffer, grant.limits)
        masked = MaskedLog(log, Mask(()))
        parts = (SYSTEM_PYTHON, Exposed(), inputs, masked, events.append, self.recall, self.freight)
        job = PreparedAttempt(grant, *parts)
        assert not isinstance(grant.spec, FunctionSpec)
        plan = plan_of(job, grant.spec)
        run = RangeRun(job, plan.confinement, AttemptFiles(job, plan.puts))
        outcome = await run.to_its_end(self._driver, self.outcomes.append)
        await masked.close()
        self.buffer.flush()
        return outcome.reason

    def files(self) -> dict[str, bytes]:
        outbox = self.freight.outbox
        return {parcel.path: outbox.read(parcel, 0, 1000) for parcel in outbox.parcels}

    @property
    def reasons(self) -> dict[int, EndReason]:
        return {outcome.item: outcome.reason for outcome in self.outcomes}

    def text(self) -> str:
        pieces = self.spool.read(0, 10**6, 10**9)
        return b"".join(piece.data for piece in pieces).decode()


def a_range(source: str, items: range) -> Grant:
    limits = Limits(run_seconds=1.0, processes=16, log_bytes=65_536)
    requirements = Requirements(memory_bytes=128 * MIB, disk_bytes=8 * MIB)
    return replace(a_grant(source, items=items, limits=limits), requirements=requirements)


@pytest.fixture(params=[BubblewrapDriver, UnconfinedDriver], ids=["bwrap", "none"])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    chosen_driver: Driver = request.param(tmp_path / "sandbox", "test")
    await chosen_driver.probe()
    return chosen_driver


async def test_each_item_meets_its_own_walls(driver: Driver, tmp_path: Path) -> None:
    item_run = Ran(driver, tmp_path)
    last = 12 if driver.encloses_processes else 9  # a bomb of forks is for the sandbox alone
    assert await item_run.run(a_range(MANNERS, range(last))) is EndReason.COMPLETED
    assert item_run.reasons == {item: REASONS[item] for item in range(last)}
    assert [outcome.item for outcome in item_run.outcomes] == list(range(last)), (
        "one after the other"
    )
    by_item = {outcome.item: outcome for outcome in item_run.outcomes}
    assert (by_item[1].exit_code, by_item[4].exit_code) == (3, -11)
    assert all((outcome.detail == "") == (outcome.exit_code == 0) for outcome in item_run.outcomes)
    text = item_run.text()
    assert 'item 7:\nTraceback (most recent call last):\n  File "script.py", line ' in text
    assert "ValueError: seven" in text
    assert by_item[7].detail == "it ended with exit status 1"
    assert by_item[7].last_lines.endswith("\nValueError: seven")
    assert {by_item[item].last_lines for item in (0, 1, 4)} == {""}, "nobody else's"
    assert by_item[1].detail == "it ended with exit status 3", "it wrote nothing"
    assert "item 0:" not in text, "who says nothing has no line"


async def test_an_item_finds_everything_as_the_first_one_did(
    driver: Driver, tmp_path: Path
) -> None:
    item_run = Ran(driver, tmp_path)
    messy_then_curious = MANNERS.replace("item == number", "(6, 11)[item] == number")
    assert await item_run.run(a_range(messy_then_curious, range(2))) is EndReason.COMPLETED
    assert (
        item_run.text() == "item 1:\n['.tmp', 'output', 'script.py'] 1000 ['script.py'] __main__\n"
    )


# As caches of modules are; and a directory in the place of what must be put back.
READ_ONLY = """
import os
if os.environ["POTLUCK_ITEM"] == "0":
    os.unlink("script.py")
    for name in ("cache/of/modules", "script.py/too"):
        os.makedirs(name)
        open(name + "/file", "w").write("kept")
        for path in (name, os.path.dirname(name), name.split("/")[0]):
            os.chmod(path, 0)
print(sorted(os.listdir(".")))
"""


async def test_read_only_files_of_an_item_are_removed_for_the_next(tmp_path: Path) -> None:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    await driver.probe()
    item_run = Ran(driver, tmp_path)
    assert await item_run.run(a_range(READ_ONLY, range(2))) is EndReason.COMPLETED
    assert item_run.reasons == dict.fromkeys(range(2), EndReason.COMPLETED)
    assert item_run.text().endswith("item 1:\n['.tmp', 'output', 'script.py']\n")


async def test_an_item_that_ends_at_its_limit_leaves_no_fault_to_others(tmp_path: Path) -> None:
    """The watchdog looks a few times a second; the item is over by then, its neighbour is not."""
    fork_bomb = (
        "import os, time\n"
        "if os.environ['POTLUCK_ITEM'] != '0':\n"
        "    time.sleep(0.3)\n"
        "    raise SystemExit\n"
        "for _ in range(40):\n"
        "    try:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(60)\n"
        "    except OSError:\n"
        "        os._exit(0)\n"
    )
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    report = await driver.probe()
    item_run = Ran(driver, tmp_path)
    await item_run.run(a_range(fork_bomb, range(2)))
    assert item_run.reasons[1] is EndReason.COMPLETED
    if report.processes.startswith("cgroup"):
        assert item_run.reasons[0] is EndReason.PROCESS_LIMIT


async def test_output_of_items_is_truncated_and_fails_none(driver: Driver, tmp_path: Path) -> None:
    item_run = Ran(driver, tmp_path)
    await item_run.run(a_range("print('x' * 40_000)", range(4)))
    assert set(item_run.reasons.values()) == {EndReason.COMPLETED}
    text = item_run.text()
    assert text.startswith("item 0:\nxxx") and "of output dropped here" in text
    assert text.rpartition("item 3:\n")[2].strip("x") == "\n", "the end is the last item's"
    assert len(text) < 65_536 + 1000


async def test_an_item_that_interferes_with_its_runner_fails_alone(
    driver: Driver, tmp_path: Path
) -> None:
    """An item that speaks for the one that runs it harms its own task, and nobody else."""
    liar = (
        "import os\n"
        "if os.environ['POTLUCK_ITEM'] == '0':\n"
        "    for name in os.listdir(f'/proc/{os.getppid()}/fd'):\n"
        "        try:\n"
        "            fd = os.open(f'/proc/{os.getppid()}/fd/{name}', os.O_RDWR)\n"
        "            os.write(fd, b'nonsense')\n"
        "        except OSError:\n"
        "            pass\n"
        "    os.kill(os.getppid(), 9)\n"
    )
    item_run = Ran(driver, tmp_path)
    assert await item_run.run(a_range(liar, range(3))) is EndReason.COMPLETED
    assert item_run.reasons[0] is EndReason.SIGNAL
    assert (item_run.reasons[1], item_run.reasons[2]) == (EndReason.COMPLETED, EndReason.COMPLETED)


async def test_outcomes_travel_in_parts_before_the_end(server: FakeServer, tmp_path: Path) -> None:
    source = "import os, time\ntime.sleep(0.05 if int(os.environ['POTLUCK_ITEM']) < 120 else 0.5)"
    grant = a_grant(source, items=range(100, 122))
    async with providing(server, tmp_path):
        await server.offer(grant)
        finished = await server.outcome(grant.attempt_id)
    parts = [report for report in server.reports if isinstance(report, ItemsDone)]
    assert len(parts) > 1, "not all at the end"
    assert [item.item for item in server.items(grant.attempt_id)] == list(range(100, 122))
    assert isinstance(server.reports[-1], Finished), "the end comes last"
    assert (finished.reason, finished.exit_code) == (EndReason.COMPLETED, 0)
    assert finished.usage.run_seconds >= 20 * 0.05 + 2 * 0.5


ENDLESS_FROM_3 = """
import os, time
item = int(os.environ["POTLUCK_ITEM"])
print("item", item, flush=True)
if item >= 3:
    time.sleep(600)
"""


async def test_a_cancelled_range_stops_at_once(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant(ENDLESS_FROM_3, items=range(10))
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await server.until(lambda: len(server.items(grant.attempt_id)) == 3, "three outcomes")
        await server.call_off(grant.attempt_id)
        await running.until(lambda: len(running.announced) > 2)
        await server.until(lambda: server.beats[-1].held == (), "nothing is held")
    assert server.finished(grant.attempt_id) == []


async def test_a_returned_range_keeps_its_outcomes(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant(ENDLESS_FROM_3, items=range(10))
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await server.until(lambda: "item 3" in server.text(grant.attempt_id), "the fourth runs")
        running.stop.set()
        assert (await server.outcome(grant.attempt_id)).reason is EndReason.NODE_LEFT
    assert [item.item for item in server.items(grant.attempt_id)] == [0, 1, 2]


async def until_written(directory: Path, outcomes: int) -> None:
    """Until so many outcomes are in the journal of the provider in this directory."""

    def written() -> int:
        attempts = [
            attempt for path in directory.rglob("journal") for attempt in _read(path).values()
        ]
        return sum(
            len(report.outcomes) for attempt in attempts for report in attempt.outcomes.values()
        )

    async with asyncio.timeout(30):
        while written() < outcomes:
            await asyncio.sleep(0.01)


async def test_kill_9_loses_no_outcome_and_runs_none_again(
    server: FakeServer, tmp_path: Path
) -> None:
    """What was written down and not acknowledged is told by the next life, before the end."""
    grant = a_grant(ENDLESS_FROM_3, items=range(10))
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        server.report_codes = ["unavailable"] * 1000  # it hears them, and cannot take them
        await server.offer(grant)
        await server.until(lambda: "item 3" in server.text(grant.attempt_id), "the fourth runs")
        sandboxed = psutil.Process(provider.pid).children(recursive=True)
        await until_written(tmp_path, outcomes=3)
        await provider.end(signal.SIGKILL)
        await until_gone(sandboxed)
    assert server.items(grant.attempt_id) == []
    server.report_codes = []
    async with provider_process(server.url, tmp_path) as provider:
        await provider.event("registered")
        outcome = await server.outcome(grant.attempt_id)
    assert outcome.reason is EndReason.NODE_RESTARTED
    assert [item.item for item in server.items(grant.attempt_id)] == [0, 1, 2]
    assert server.text(grant.attempt_id).count("item 3\n") == 1, "nothing ran again"
    assert lease_of(grant) in [lease for poll in server.polls for lease in poll.held]


async def test_an_empty_range_runs_nothing(server: FakeServer, tmp_path: Path) -> None:
    """A node that lost its data directory is given again what has all its outcomes already."""
    grant = replace(a_grant("print('it ran')", items=range(3)), items=[])
    async with providing(server, tmp_path):
        await server.offer(grant)
        assert (await server.outcome(grant.attempt_id)).reason is EndReason.COMPLETED
    assert server.text(grant.attempt_id) == ""


LEAVES = """
import os, time
item = int(os.environ["POTLUCK_ITEM"])
with open("output/said", "w") as file:
    file.write(f"{item} of {os.environ['POTLUCK_ITEMS']}")
if item == 1: raise SystemExit(3)
if item == 2: time.sleep(60)
if item == 3: os.remove("output/said")
"""


async def test_files_of_each_item_are_collected_once_even_if_it_failed(
    driver: Driver, tmp_path: Path
) -> None:
    item_run = Ran(driver, tmp_path)
    assert await item_run.run(a_range(LEAVES, range(5))) is EndReason.COMPLETED
    assert item_run.files() == {f"{item}/said": b"%d of 1000" % item for item in (0, 1, 2, 4)}
    assert len(item_run.freight.outbox) == 4


async def test_an_item_that_is_called_back_leaves_nothing(driver: Driver, tmp_path: Path) -> None:
    item_run = Ran(driver, tmp_path)
    asyncio.get_running_loop().call_later(0.6, item_run.recall.ask, EndReason.RECLAIMED, 0.1)
    source = LEAVES.replace("if item == 2: time.sleep(60)", "time.sleep(60 * (item > 0))")
    assert await item_run.run(a_range(source.replace("if item == 1", "if 0"), range(3)))
    assert set(item_run.files()) <= {"0/said"}


# Item 1 spoils what is too large to be kept in memory, item 3 what is not.
SPOILS = """
cat small sub/deep; wc -c < large; ls
case $POTLUCK_ITEM in
1) echo spoilt >> large ;;
3) echo spoilt > small; rm -r sub; mkdir sub new ;;
esac
"""


async def test_every_item_finds_its_folder_as_it_was(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "folder.tar"
    with tarfile.open(folder, "w") as archive:
        for name, content in (("small", b"s"), ("sub/deep", b"d"), ("large", bytes(5 * MIB))):
            (tmp_path / "member").write_bytes(content)
            archive.add(tmp_path / "member", name)
    blob = BlobRef("ab" * 32, folder.stat().st_size)
    grant = a_range("", range(6))
    spec = CommandSpec(("sh", "-c", SPOILS), folder=blob)
    item_run = Ran(driver, tmp_path)
    reason = await item_run.run(replace(grant, spec=spec), InputFiles({blob.sha256: folder}))
    assert reason is EndReason.COMPLETED
    assert set(item_run.reasons.values()) == {EndReason.COMPLETED}
    listing = "sd5242880\nlarge\noutput\nsmall\nsub\n"
    assert item_run.text() == "".join(f"item {item}:\n{listing}" for item in range(6))


# Deeper than Python recurses; item 2 where memory is shared.
DIGS = """
import os
item = int(os.environ["POTLUCK_ITEM"])
os.chdir("/dev/shm" if item == 2 else ".")
for _ in range(1200 if item in (0, 2) else 0):
    os.mkdir("d")
    os.chdir("d")
"""


async def test_a_tree_too_deep_to_remove_fails_no_other_item(tmp_path: Path) -> None:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    await driver.probe()
    item_run = Ran(driver, tmp_path)
    grant = replace(a_range(DIGS, range(4)), limits=Limits(run_seconds=30.0))
    assert await item_run.run(grant) is EndReason.COMPLETED
    assert item_run.reasons == dict.fromkeys(range(4), EndReason.COMPLETED)


async def test_an_unpackable_folder_ends_all_items(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "folder.tar").write_bytes(b"no archive" * 100)
    blob = BlobRef("ab" * 32, 1000)
    spec = CommandSpec(("true",), folder=blob)
    item_run = Ran(driver, tmp_path)
    inputs = InputFiles({blob.sha256: tmp_path / "folder.tar"})
    assert (
        await item_run.run(replace(a_range("", range(3)), spec=spec), inputs)
        is EndReason.INPUT_FAILED
    )
    assert item_run.outcomes == []


MAKES_FILES = """
import os, pathlib
item = os.environ["POTLUCK_ITEM"]
pathlib.Path("ckpt").mkdir()
pathlib.Path("ckpt", item).write_text(item)
pathlib.Path("lost.txt").write_text("lost")
"""


async def test_each_item_keeps_the_new_files_that_match(driver: Driver, tmp_path: Path) -> None:
    item_run = Ran(driver, tmp_path)
    grant = a_range(MAKES_FILES, range(3))
    keeping_grant = replace(grant, limits=replace(grant.limits, keep=("ckpt/**",)))
    assert await item_run.run(keeping_grant) is EndReason.COMPLETED
    assert item_run.files() == {f"{item}/ckpt/{item}": b"%d" % item for item in range(3)}
