"""One attempt from its grant to its end, where somebody outside has a say in it."""

import asyncio
import hashlib
import os
import tarfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, NamedFile
from potluck.model.task import MIB, EndReason, Limits
from potluck.model.task_spec import CommandSpec
from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.attempt.runner import MayRun, Runner, accept_any
from potluck.provider.dependencies.package_index import PackageIndex
from potluck.provider.dependencies.preparer import Preparer
from potluck.provider.egress.egress import Egress
from potluck.provider.event import CodeStarted, Event, ItemsEnded, PrepareBegan
from potluck.provider.expose.expose import DeviceExposer, ExposeFunctions, expose, hide
from potluck.provider.expose.exposed import Exposed, HostPaths
from potluck.provider.files.cache import FileCache
from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver
from potluck.provider.sandbox.driver import Driver, StopRequest
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from potluck.provider.server.throttle import Throttle
from potluck.wire.provider import Finished, Grant, GrantedDevice
from tests.provider.builders import ACCOUNT, WALLET, a_grant, idle_freight
from tests.provider.dependencies.package_index import loopback_index, wheel
from tests.provider.devices.test_expose import Rig

PATIENT = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
time.sleep(0.3)  # to write what it has
print("asked", os.environ.get("POTLUCK_ITEM"), flush=True)
"""
# The first two items are done at once; the third waits to be asked, and then ends well.
PATIENT_FROM_2 = f"import os\nif int(os.environ['POTLUCK_ITEM']) > 1: exec({PATIENT!r})"
NEEDS_KIND = """
# /// script
# dependencies = ["kind"]
# ///
print("it ran")
"""

Look = Callable[[Sequence[GrantedDevice]], Exposed]


class RunnerHarness:
    """A runner with what it needs, and what it told."""

    def __init__(
        self,
        directory: Path,
        driver: Driver,
        index_url: str = "http://127.0.0.1:9/simple",
        may_run: MayRun = accept_any,
        look: Look = hide,
    ) -> None:
        egress = Egress(directory, Throttle())
        preparer = Preparer(driver, directory / "environments", PackageIndex(index_url), egress)
        self._cache = cache = FileCache(directory / "files", 2**30)
        show = ExposeFunctions(look, lambda _: True)
        self.runner = Runner(driver, preparer, cache, egress, 0.05, may_run, show)
        self.staging = directory / "environments" / "staging"
        self.recall = StopRequest()
        self.events: list[Event] = []
        self._directory = directory

    @asynccontextmanager
    async def running(self, grant: Grant) -> AsyncIterator[asyncio.Task[Finished]]:
        self.spool = LogSpool.open(self._directory, grant.attempt_id)
        log = LogBuffer(self.spool, 0.01)
        self.freight = idle_freight(self._directory)
        run = asyncio.create_task(
            self.runner.run(grant, log, self.events.append, self.freight, self.recall)
        )
        try:
            yield run
        finally:
            run.cancel()
            await asyncio.wait([run])
            self.spool.close()

    def keep(self, data: bytes) -> BlobRef:
        """As if it had been fetched before."""
        blob = BlobRef(hashlib.sha256(data).hexdigest(), len(data))
        path = self._cache._path(ACCOUNT, blob)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o555)
        return blob

    def text(self) -> str:
        return b"".join(piece.data for piece in self.spool.read(0, 10**6, 10**9)).decode()

    def items(self) -> list[int]:
        item_events = [event for event in self.events if isinstance(event, ItemsEnded)]
        return [outcome.item for event in item_events for outcome in event.outcomes]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture(params=[BubblewrapDriver, UnconfinedDriver], ids=["bwrap", "none"])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    chosen_driver: Driver = request.param(tmp_path / "sandbox", "test")
    await chosen_driver.probe()
    return chosen_driver


async def test_code_that_is_called_back_may_say_a_last_word(driver: Driver, tmp_path: Path) -> None:
    harness = RunnerHarness(tmp_path, driver)
    async with harness.running(a_grant(PATIENT)) as run:
        await until(lambda: "ready\n" in harness.text())
        harness.recall.ask(EndReason.RECLAIMED, 20.0, "the hours of the device are over")
        finished = await run
        assert harness.text() == "ready\nasked None\n"
    assert (finished.reason, finished.exit_code) == (EndReason.RECLAIMED, None)
    assert finished.detail == "the hours of the device are over"
    assert 0 < finished.usage.run_seconds < 10


async def test_a_recalled_range_keeps_finished_items(driver: Driver, tmp_path: Path) -> None:
    harness = RunnerHarness(tmp_path, driver)
    async with harness.running(a_grant(PATIENT_FROM_2, items=range(9))) as run:
        await until(lambda: "ready\n" in harness.text())
        harness.recall.ask(EndReason.DEVICE_LOST, 20.0)
        finished = await run
        assert harness.text() == "item 2:\nready\nasked 2\n", "none was begun after it"
    assert finished.reason is EndReason.DEVICE_LOST
    assert harness.items() == [0, 1], "the third ended well, but as an answer to the signal"


async def test_a_preparation_that_is_called_back_ends_at_once(tmp_path: Path) -> None:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    with loopback_index() as index:
        name, content = wheel("kind", {"kind.py": b""})
        index.add("kind", name, content)
        index.stall(name)
        harness = RunnerHarness(tmp_path, driver, index.url)
        async with harness.running(a_grant(NEEDS_KIND)) as run:
            await until(index.asked.is_set)
            harness.recall.ask(EndReason.RECLAIMED, 1000.0)
            async with asyncio.timeout(10):
                finished = await run
    assert finished.reason is EndReason.RECLAIMED
    assert finished.usage.prepare_seconds > 0
    assert [type(event) for event in harness.events] == [PrepareBegan]
    assert list(harness.staging.iterdir()) == []


async def test_refused_kinds_are_declined_before_any_work(tmp_path: Path) -> None:
    denied = f"The owner of this node takes no tasks of {WALLET}."
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    harness = RunnerHarness(tmp_path, driver, may_run=lambda grant: denied)
    async with harness.running(a_grant(NEEDS_KIND)) as run:
        finished = await run
        assert harness.text() == ""
    assert (finished.reason, finished.detail) == (EndReason.DECLINED, denied)
    assert harness.events == []


async def test_a_recall_does_not_change_an_end_that_came_before(tmp_path: Path) -> None:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    harness = RunnerHarness(tmp_path, driver)
    async with harness.running(a_grant("raise SystemExit(3)")) as run:
        finished = await run
        harness.recall.ask(EndReason.RECLAIMED, 0.0)
    assert (finished.reason, finished.exit_code) == (EndReason.EXIT_STATUS, 3)
    assert [type(event) for event in harness.events] == [CodeStarted]


LOOKS_AROUND = """
import os, signal, time
mine = {name: value for name, value in os.environ.items() if "VISIBLE" in name or "VENDOR" in name}
cards = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
print(cards, [open("/dev/" + card, "rb").read(1) for card in cards], sorted(mine.items()))
while True:
    time.sleep(0.01)
"""
CARDS = ("GPU-a", "GPU-b", "GPU-c")


async def test_two_tasks_side_by_side_see_their_own_cards_and_no_other(tmp_path: Path) -> None:
    """Three cards, as a description for containers shows them: nodes that can be told apart."""
    rig = Rig(tmp_path / "machine")
    edits = {"env": ["VENDOR=here", "CUDA_VISIBLE_DEVICES=all"]}
    devices = []
    for number, (uuid, target) in enumerate(zip(CARDS, ("zero", "null", "full"), strict=True)):
        rig.card("nvidia", uuid, f"0000:0{number + 1}:00.0", number)
        node = {"path": f"/dev/nvidia{number}", "hostPath": f"/dev/{target}"}
        devices.append({"name": uuid, "containerEdits": {"deviceNodes": [node]}})
    content = {"kind": "nvidia.com/gpu", "containerEdits": edits, "devices": devices}
    rig.describe("nvidia.json", content)
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    look = partial(expose, found=rig.found, machine=HostPaths(rig.root))
    variables = {"CUDA_VISIBLE_DEVICES": "GPU-b", "VENDOR": "mine"}
    grants = [
        a_grant(LOOKS_AROUND, device=uuid, environment=variables) for uuid in ("GPU-a", "GPU-c")
    ]
    harnesses = [RunnerHarness(tmp_path, driver, look=look) for _ in grants]
    async with harnesses[0].running(grants[0]), harnesses[1].running(grants[1]):
        await until(lambda: all(harness.text().endswith("\n") for harness in harnesses))
        for harness, number, uuid in zip(harnesses, (0, 2), ("GPU-a", "GPU-c"), strict=True):
            vendor_variables = [
                ("CUDA_VISIBLE_DEVICES", uuid),
                ("HIP_VISIBLE_DEVICES", "-1"),
                ("NVIDIA_VISIBLE_DEVICES", uuid),
                ("ROCR_VISIBLE_DEVICES", "-1"),
                ("VENDOR", "here"),
            ]
            assert harness.text() == f"['nvidia{number}'] [b'\\x00'] {vendor_variables}\n"


async def test_an_unexposable_device_is_reported_before_anything_runs(tmp_path: Path) -> None:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    harness = RunnerHarness(tmp_path, driver, look=partial(expose, found={}))
    async with harness.running(a_grant(device="GPU-a")) as run:
        finished = await run
    assert finished.reason is EndReason.SANDBOX_FAILED
    assert finished.detail == "A device is not usable: This node no longer has the device GPU-a."
    assert harness.events == []


async def test_a_hanging_driver_does_not_block_cancellation(tmp_path: Path) -> None:
    asking_threads: list[threading.Thread] = []
    goes_on = threading.Event()

    def hang(granted: Sequence[GrantedDevice]) -> Exposed:
        asking_threads.append(threading.current_thread())
        goes_on.wait(20)
        return hide(granted)

    harness = RunnerHarness(tmp_path, BubblewrapDriver(tmp_path / "sandbox", "test"), look=hang)
    try:
        for _ in range(2):
            harness.recall = StopRequest()
            async with harness.running(a_grant()) as run:
                await until(lambda: bool(asking_threads))
                harness.recall.ask(EndReason.DEVICE_LOST, 0.0)
                async with asyncio.timeout(5):
                    assert (await run).reason is EndReason.DEVICE_LOST
        assert len(asking_threads) == 1, "nobody asks again before it has answered"
        assert asking_threads[0].daemon, "the end of the provider does not wait for it"
    finally:
        goes_on.set()
    harness.recall = StopRequest()
    async with harness.running(a_grant()) as run:
        assert (await run).reason is EndReason.COMPLETED


async def test_devices_without_a_driver_are_exposed_without_a_thread() -> None:
    looked_in: list[threading.Thread] = []

    def look(granted: Sequence[GrantedDevice]) -> Exposed:
        looked_in.append(threading.current_thread())
        return hide(granted)

    await DeviceExposer(ExposeFunctions(look, lambda _: False)).show([])
    await DeviceExposer(ExposeFunctions(look, lambda _: True)).show([])
    assert [thread is threading.current_thread() for thread in looked_in] == [True, False]


# Works with what came along, and tries to write to what is only shown.
WORKS = """
cat sub/here data/shown
echo spoilt 2>/dev/null >> data/shown || echo read-only
echo "$TOKEN" and $TOKEN
echo result > $POTLUCK_OUTPUT/said
ls $POTLUCK_CHECKPOINT
"""


def an_archive(directory: Path, **files: bytes) -> bytes:
    path = directory / "archive.tar"
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            (directory / "member").write_bytes(content)
            archive.add(directory / "member", name.replace("_", "/"))
    return path.read_bytes()


def a_command(harness: RunnerHarness, directory: Path, source: str, **changes: BlobRef) -> Grant:
    shown_file = NamedFile("data/shown", harness.keep(b"shown\n"))
    folder = harness.keep(an_archive(directory, sub_here=b"here\n"))
    spec = CommandSpec(("sh", "-c", source), {"PLAIN": "1"}, folder, (shown_file,))
    return replace(a_grant(), spec=replace(spec, **changes), secrets={"TOKEN": "swordfish"})


async def test_a_command_finds_its_input_files_and_leaves_outputs(
    driver: Driver, tmp_path: Path
) -> None:
    harness = RunnerHarness(tmp_path, driver)
    checkpoint = harness.keep(an_archive(tmp_path, step=b"12"))
    grant = replace(a_command(harness, tmp_path, WORKS), checkpoint=checkpoint)
    async with harness.running(grant) as run:
        finished = await run
        text = harness.text()
    assert finished.reason is EndReason.COMPLETED, text
    # Root may write to everything where there is no sandbox; there it is his own task.
    wall = "read-only\n" if driver.encloses_processes or os.geteuid() else ""
    assert text == f"here\nshown\n{wall}*** and ***\nstep\n"
    (parcel,) = harness.freight.outbox.parcels
    assert (parcel.path, harness.freight.outbox.read(parcel, 0, 99)) == ("said", b"result\n")
    assert (finished.usage.output_bytes, finished.usage.input_bytes) == (7, 0), "it was here"


@pytest.mark.parametrize(
    ("folder", "reason", "sentence"),
    [
        (
            b"no archive at all" * 100,
            EndReason.INPUT_FAILED,
            "it is not a tar archive, or is damaged",
        ),
        (None, EndReason.DISK_LIMIT, "the folder takes 17.0 MiB; the task has 16.0 MiB of disk"),
    ],
)
async def test_a_broken_folder_archive_is_reported_and_nothing_runs(
    driver: Driver, tmp_path: Path, folder: bytes | None, reason: EndReason, sentence: str
) -> None:
    harness = RunnerHarness(tmp_path, driver)
    blob = harness.keep(folder or an_archive(tmp_path, big=bytes(17 * MIB)))
    async with harness.running(a_command(harness, tmp_path, "echo ran", folder=blob)) as run:
        finished = await run
        assert harness.text() == ""
    assert finished.reason is reason
    assert sentence in finished.detail
    assert not any(isinstance(event, CodeStarted) for event in harness.events)


async def test_files_and_folder_together_reach_the_disk_limit(tmp_path: Path) -> None:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    await driver.probe()
    harness = RunnerHarness(tmp_path, driver)
    blob = harness.keep(an_archive(tmp_path, big=bytes(10 * MIB)))
    fills = "head -c 10000000 /dev/zero > more; sleep 10"
    async with harness.running(a_command(harness, tmp_path, fills, folder=blob)) as run:
        finished = await run
    assert finished.reason is EndReason.DISK_LIMIT


MAKES_FILES = """
import pathlib
pathlib.Path("ckpt").mkdir()
pathlib.Path("ckpt/1.pt").write_text("weights")
pathlib.Path("notes.txt").write_text("lost")
print("made")
"""


async def test_new_files_are_kept_on_request_and_others_are_listed(
    driver: Driver, tmp_path: Path
) -> None:
    harness = RunnerHarness(tmp_path, driver)
    async with harness.running(a_grant(MAKES_FILES, limits=Limits(keep=("ckpt/**",)))) as run:
        assert (await run).reason is EndReason.COMPLETED
        assert [parcel.path for parcel in harness.freight.outbox.parcels] == ["ckpt/1.pt"]
        assert harness.text() == (
            "made\noutput: 1 new file, 4 B, was not kept: 'notes.txt';"
            " write to $POTLUCK_OUTPUT or use --keep 'notes.txt'\n"
        )


async def test_one_log_line_names_the_files_that_an_array_did_not_keep(
    driver: Driver, tmp_path: Path
) -> None:
    harness = RunnerHarness(tmp_path, driver)
    async with harness.running(a_grant(MAKES_FILES, items=range(3))) as run:
        assert (await run).reason is EndReason.COMPLETED
        assert harness.text().count("not kept") == 1
        assert "2 new files of item 0, 11 B, were not kept" in harness.text()


async def test_much_output_ends_no_task_and_its_end_is_kept(driver: Driver, tmp_path: Path) -> None:
    source = "for number in range(200_000): print(f'line {number}')"
    harness = RunnerHarness(tmp_path, driver)
    async with harness.running(a_grant(source, limits=Limits(log_bytes=65_536))) as run:
        finished = await run
        text = harness.text()
    assert finished.reason is EndReason.COMPLETED
    assert finished.usage.log_bytes > 2_000_000, "what it wrote"
    assert text.startswith("line 0\nline 1\n") and text.endswith("\nline 199999\n")
    assert "MiB of output dropped here, which exceeded the log limit" in text
    assert len(text) < 65_536 + 1000
