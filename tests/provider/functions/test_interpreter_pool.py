"""Functions in warm interpreters: loaded once, called often, never shared, given up in time."""

import asyncio
import hashlib
import os
import signal
import sys
import tarfile
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value
from potluck.model.ids import AccountId
from potluck.model.task import MIB, EndReason, Limits
from potluck.model.task_spec import FunctionSpec
from potluck.provider.event import (
    CodeStarted,
    DevicesClosed,
    DevicesWanted,
    GrantRefusal,
    ItemsEnded,
    ShutdownRequested,
)
from potluck.provider.files import output_upload as collecting
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.functions.interpreter_pool import WarmSettings
from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver
from potluck.provider.sandbox.driver import Driver
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from potluck.wire.plain_values import decode
from tests.provider.builders import a_grant
from tests.provider.functions.warm_calls import Shop, call_of, items_of, key, open_shop

OTHER = AccountId("account_01j00000000000000000000001")
COUNTED: list[int] = []
pytestmark = pytest.mark.usefixtures("by_value")


_FOUND: set[int] = set()


@pytest.fixture(autouse=True)
def _what_was_there() -> None:
    _FOUND.clear()
    _FOUND.update(_bwraps())


@pytest.fixture(params=[BubblewrapDriver, UnconfinedDriver], ids=["bwrap", "none"])
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    chosen_driver: Driver = request.param(tmp_path / "sandbox", "test")
    await chosen_driver.probe()
    return chosen_driver


@pytest.fixture
async def shop(driver: Driver, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(driver, tmp_path) as shop:
        yield shop


def count() -> tuple[int, int]:
    """Says which process it is in, and how often it has been called there."""
    COUNTED.append(1)
    return os.getpid(), len(COUNTED)


def add(a: int, b: int = 10) -> int:
    return a + b


def behave(manner: str) -> Any:  # noqa: C901, a list of manners
    match manner:
        case "raise":
            raise ValueError("on purpose")
        case "exit":
            raise SystemExit(3)
        case "object":
            return [object()]
        case "print":
            print("a line")
            print("a complaint", file=sys.stderr)
        case "file":
            Path(os.environ["POTLUCK_OUTPUT"], "left.txt").write_text("behind")
        case "sleep":
            time.sleep(60)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            return len(bytearray(400 * MIB))
        case "disk":
            Path("big").write_bytes(bytes(32 * MIB))
        case "log":
            while True:
                print("x" * 1000)
        case "fork":
            if os.fork() == 0:
                return "the child"
            time.sleep(0.1)
        case "quiet":
            os.closerange(3, 100)
            time.sleep(60)
        case "lie":
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b"V" + b"\xff" * 100)
                except OSError:
                    continue
            time.sleep(60)
    return manner


async def test_a_call_returns_its_value_and_the_next_one_finds_the_interpreter_warm(
    shop: Shop,
) -> None:
    first = await shop.run(call_of(count))
    cold = _started()
    second = await shop.run(call_of(count))
    warm = _started()
    sums = await shop.run(call_of(add, 1, 2))

    assert first.ended.reason is EndReason.COMPLETED
    assert (first.value[0], first.value[1], second.value[1]) == (second.value[0], 1, 2)
    assert sums.value == 3
    assert cold and warm == cold, "the second starts no process"
    assert any(isinstance(event, CodeStarted) for event in shop.told)


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("raise", EndReason.EXCEPTION),
        ("exit", EndReason.EXCEPTION),
        ("object", EndReason.EXCEPTION),
        ("sleep", EndReason.TIME_LIMIT),
        ("kill", EndReason.SIGNAL),
        ("memory", EndReason.MEMORY_LIMIT),
        ("disk", EndReason.DISK_LIMIT),
        ("log", EndReason.TIME_LIMIT),  # the log limit ends nothing
        ("quiet", EndReason.TIME_LIMIT),
        ("lie", EndReason.SIGNAL),
    ],
)
async def test_every_way_to_end(walled: Shop, manner: str, reason: EndReason) -> None:
    seconds = 1.0 if reason is EndReason.TIME_LIMIT else 20.0
    limits = Limits(run_seconds=seconds, processes=16, log_bytes=65_536)
    result = await walled.run(call_of(behave, manner, limits=limits))

    assert result.ended.reason is reason, result.ended
    is_kept = reason is EndReason.EXCEPTION
    assert len(walled.pool.now()) == is_kept, "who broke it, or touched a wall, costs it"


async def test_after_one_that_broke_the_next_begins_afresh(walled: Shop) -> None:
    await walled.run(call_of(count))
    await walled.run(call_of(behave, "kill"))
    result = await walled.run(call_of(behave, "well"))

    assert result.value == "well"


async def test_an_exception_comes_as_data_with_its_traceback(walled: Shop) -> None:
    raised = await walled.run(call_of(behave, "raise"))
    result = await walled.run(call_of(behave, "exit"))
    unplain = await walled.run(call_of(behave, "object"))

    assert raised.value["type"] == "ValueError"
    assert raised.value["message"] == "on purpose"
    assert "in behave" in raised.value["traceback"]
    assert "serve.py" not in raised.value["traceback"]
    assert raised.ended.detail == "ValueError: on purpose"
    assert result.value["type"] == "SystemExit"
    assert "at value[0]" in unplain.value["message"]


def tells_its_secret(_: int = 0) -> None:
    raise ValueError(f"401 for https://there/?key={os.environ['API_KEY']}")


async def test_exceptions_contain_no_secrets(walled: Shop) -> None:
    """It gets into this node's journal, and its first line to the node's owner."""
    secrets = {"API_KEY": "correct\nhorse"}
    called = await walled.run(replace(call_of(tells_its_secret), secrets=secrets))
    mapped = await walled.run(replace(items_of(tells_its_secret, [1]), secrets=secrets))

    assert called.ended.detail == "ValueError: 401 for https://there/?key=***"
    assert called.value["message"] == "401 for https://there/?key=***"
    assert mapped.failed[0].last_lines == called.ended.detail
    assert not [
        failure for failure in (called.ended.value, mapped.failed[0]) if "horse" in str(failure)
    ]


async def test_an_unloadable_function_reports_the_missing_module(walled: Shop) -> None:
    grant = call_of(add)
    assert isinstance(grant.spec, FunctionSpec)
    code = Value(b"cnowhere_to_be_found\nit\n.")
    result = await walled.run(replace(grant, spec=replace(grant.spec, code=code)))

    assert result.ended.reason is EndReason.EXCEPTION
    assert "nowhere_to_be_found" in result.value["message"]
    assert "dependencies" in result.value["message"]
    assert walled.pool.now() == ()


async def test_code_is_passed_on_piece_by_piece(walled: Shop, tmp_path: Path) -> None:
    """However large it is, it is not in the node's own memory."""
    grant, file, size = call_of(add, 1, 2), tmp_path / "code", 32 * MIB
    assert isinstance(grant.spec, FunctionSpec)
    file.write_bytes(grant.spec.code.data)
    os.truncate(file, size)  # what follows the end of a pickle is not looked at
    blob = BlobRef("a" * 64, size)
    large = replace(grant, spec=replace(grant.spec, code=Value(blob=blob)))
    tracemalloc.start()
    try:
        result = await walled.run(large, InputFiles({blob.sha256: file}))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert result.value == 3
    assert peak_bytes < size / 2


async def test_output_and_files_belong_to_the_call_that_made_them(walled: Shop) -> None:
    printed = await walled.run(call_of(behave, "print"))
    result = await walled.run(call_of(behave, "file"))
    plain = await walled.run(call_of(behave, "nothing"))

    assert "a line" in printed.text and "a complaint" in printed.text
    assert result.files == ["left.txt"]
    assert (plain.text, plain.files) == ("", [])
    assert printed.ended.log_bytes > 0
    assert plain.ended.log_bytes == 0


def speaks_late() -> None:
    import threading

    threading.Timer(0.2, print, ["much too late"]).start()


async def test_output_after_the_end_is_discarded(walled: Shop) -> None:
    await walled.run(call_of(speaks_late))
    piece_count = walled.logs[-1].pieces
    await asyncio.sleep(0.5)
    walled.logs[-1].flush()

    assert walled.logs[-1].pieces == piece_count
    assert len(walled.pool.now()) == 1


async def test_a_child_that_comes_back_says_nothing(walled: Shop) -> None:
    assert (await walled.run(call_of(behave, "fork"))).value == "fork"
    assert (await walled.run(call_of(behave, "again"))).value == "again"


async def test_results_are_pickled_only_when_asked(walled: Shop) -> None:
    result = await walled.run(call_of(behave, "object", pickles_results=True))

    assert result.ended.value is not None
    assert result.ended.value.data.startswith(b"\x80")


def remember(word: str) -> tuple[int, list[str], list[str]]:
    """What is in its memory and in its directory, before it adds to both."""
    seen_before = (
        os.getpid(),
        list(map(str, COUNTED)),
        sorted(path.name for path in Path().iterdir()),
    )
    COUNTED.append(word)  # type: ignore[arg-type]
    Path(word).write_text(word)
    return seen_before


async def test_two_accounts_never_share_one(shop: Shop) -> None:
    """The same code, byte for byte: another process, no file, no global."""
    first_result = await shop.run(call_of(remember, "mine", device="cpu-1"))
    other_result = await shop.run(call_of(remember, "theirs", account_id=OTHER, device="cpu-2"))
    repeated_result = await shop.run(call_of(remember, "again", device="cpu-1"))

    assert [result.value[1] for result in (first_result, other_result, repeated_result)] == [
        [],
        [],
        ["mine"],
    ]
    assert "mine" not in other_result.value[2]
    assert "mine" in repeated_result.value[2] and "theirs" not in repeated_result.value[2]
    assert len(shop.pool.now()) == 2


async def test_a_device_is_cleared_before_it_serves_another_account(walled: Shop) -> None:
    first_result = await walled.run(call_of(sandbox))
    other_result = await walled.run(call_of(sandbox, account_id=OTHER))

    assert len(walled.pool.now()) == 1
    assert first_result.value != other_result.value


def test_one_is_used_again_only_where_all_is_the_same() -> None:
    plain = call_of(count)
    assert isinstance(plain.spec, FunctionSpec)
    others = [
        call_of(count, account_id=OTHER),
        call_of(add),
        call_of(count, environment={"NAME": "value"}),
        call_of(count, limits=Limits(run_seconds=20, processes=17)),
        call_of(count, device="cpu-2"),
        call_of(count, folder=BlobRef("0" * 64, 1)),
        replace(plain, secrets={"TOKEN": "hush hush"}),
        replace(plain, devices=[replace(plain.devices[0], milli=500)]),
        replace(plain, requirements=replace(plain.requirements, memory_bytes=129 * MIB)),
        replace(plain, checkpoint=BlobRef("0" * 64, 1)),
    ]

    assert key(call_of(count, 1)) == key(plain)
    assert key(items_of(count, range(3))) == key(plain)
    assert len({key(grant) for grant in (plain, *others)}) == 11
    assert "hush" not in str(key(others[6]))


def sandbox() -> str:
    """Another one in every sandbox: the time at which it was made."""
    return Path("/proc/1/stat").read_text().split()[21]


def loads() -> int:
    """How often what is loaded for all calls has been loaded here."""
    if not COUNTED:
        COUNTED.append(0)
        time.sleep(0.2)
        COUNTED[0] += 1
    return COUNTED[0]


def loaded(_: int) -> tuple[int, str]:
    return loads(), sandbox()


async def test_a_long_load_is_paid_once(walled: Shop) -> None:
    first = await walled.run(items_of(loaded, range(500)))
    second = await walled.run(items_of(loaded, range(500)))

    load_times = set(first.returned.values()) | set(second.returned.values())
    assert len(load_times) == 1, "one interpreter, one load"
    assert load_times.pop()[0] == 1


def square(number: int) -> int:
    return number * number


async def test_items_come_back_in_few_reports(shop: Shop) -> None:
    result = await shop.run(items_of(square, range(5_000), (0, 1_000), (3_000, 5_000)))

    items = [*range(1_000), *range(3_000, 5_000)]
    assert result.ended.reason is EndReason.COMPLETED
    assert result.returned == {item: item * item for item in items}
    assert result.reports <= 6


def mixed(item: int) -> Any:
    manners = {3: "raise", 5: "kill", 7: "sleep", 9: "object", 11: "file", 12: "memory"}
    return behave(manners.get(item, str(item)))


async def test_a_bad_item_fails_alone(walled: Shop) -> None:
    limits = Limits(run_seconds=1.0, processes=16)
    result = await walled.run(items_of(mixed, range(15), limits=limits))

    assert result.ended.reason is EndReason.COMPLETED
    assert {item: outcome.reason for item, outcome in result.failed.items()} == {
        3: EndReason.EXCEPTION,
        5: EndReason.SIGNAL,
        7: EndReason.TIME_LIMIT,
        9: EndReason.EXCEPTION,
        12: EndReason.MEMORY_LIMIT,
    }
    assert sorted([*result.failed, *result.returned]) == list(range(15))
    assert result.files == ["11/left.txt"]
    assert decode(result.failed[3].error)["message"] == "on purpose"


def wait_a_little(item: int) -> int:
    time.sleep(1.0 if item == 99 else 0)
    return item


async def test_finished_items_are_reported_while_another_item_runs(walled: Shop) -> None:
    """Also by an interpreter that has served a single call before."""
    await walled.run(call_of(wait_a_little, 1))
    running = asyncio.create_task(walled.run(items_of(wait_a_little, range(100))))
    while not (events := [event for event in walled.told if isinstance(event, ItemsEnded)]):
        await asyncio.sleep(0.01)
    assert events[0].returned[-1].end == 99
    result = await running
    assert len(result.returned) == 100


def write_deep() -> None:
    Path(os.environ["POTLUCK_OUTPUT"], "deep/result").write_text("new")


def write_deep_item(_: int) -> None:
    write_deep()


async def test_files_in_a_sent_directory_are_outputs(walled: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "folder.tar"
    with tarfile.open(folder, "w") as archive:
        deep = tarfile.TarInfo("output/deep")
        deep.type, deep.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(deep)
    blob = BlobRef("a" * 64, folder.stat().st_size)
    inputs = InputFiles({blob.sha256: folder})
    calls = [await walled.run(call_of(write_deep, folder=blob), inputs) for _ in range(2)]
    grant = items_of(write_deep_item, range(3))
    spec = replace(grant.spec, folder=blob)
    result = await walled.run(replace(grant, spec=spec), inputs)

    assert [call.ended.reason for call in calls] == [EndReason.COMPLETED] * 2
    assert [call.files for call in calls] == [["deep/result"]] * 2
    assert sorted(result.files) == [f"{item}/deep/result" for item in range(3)], "each finds it"


async def test_idle_interpreters_end_after_their_time(bwrap: Driver, tmp_path: Path) -> None:
    shop = Shop(bwrap, tmp_path, WarmSettings(idle_seconds=0.2))
    result = await shop.run(call_of(count))
    assert len(shop.pool.now()) == 1
    assert shop.pool.now()[0].memory_bytes > MIB

    await asyncio.sleep(0.6)

    assert shop.pool.now() == ()
    assert shop.held == []
    assert not _sandboxes(), result
    await shop.pool.close()


def goes_on() -> None:
    def spin() -> None:
        while True:
            pass

    threading.Thread(target=spin, daemon=True).start()


async def test_a_run_that_continues_after_its_end_is_killed_and_not_charged(
    bwrap: Driver, tmp_path: Path
) -> None:
    shop = Shop(bwrap, tmp_path, WarmSettings(look_seconds=0.5))
    await shop.run(call_of(goes_on))
    await asyncio.sleep(0.6)
    second_result = await shop.run(call_of(goes_on))
    assert second_result.ended.cpu_seconds < second_result.ended.run_seconds + 0.1
    async with asyncio.timeout(10):
        while shop.pool.now() or _sandboxes():
            await asyncio.sleep(0.05)
    await shop.pool.close()


async def test_an_interpreter_is_replaced_after_its_maximum_of_calls(
    bwrap: Driver, tmp_path: Path
) -> None:
    shop = Shop(bwrap, tmp_path, WarmSettings(most_items=2))

    calls = [(await shop.run(call_of(count))).value[1] for _ in range(3)]

    assert calls == [1, 2, 1]
    await shop.pool.close()


async def test_idle_ones_make_way_for_what_wants_their_device(walled: Shop) -> None:
    await walled.run(call_of(count))
    async with walled.pool.beside(a_grant(device="cpu-2")):
        assert len(walled.pool.now()) == 1
    async with walled.pool.beside(a_grant(device="cpu-1")):
        assert walled.pool.now() == ()
        assert not _sandboxes()


async def test_idle_ones_make_way_for_what_needs_their_memory(
    bwrap: Driver, tmp_path: Path
) -> None:
    shop = Shop(bwrap, tmp_path, WarmSettings(memory_bytes=300 * MIB))
    await shop.run(call_of(count))
    async with shop.pool.beside(a_grant(device="cpu-2")):
        assert shop.pool.now() == ()
        assert shop.held == []
    await shop.pool.close()


@pytest.mark.parametrize(
    "event",
    [
        DevicesClosed({"cpu-1": GrantRefusal(EndReason.DECLINED, "closed")}),
        DevicesWanted({"cpu-1": 1.0}, EndReason.RECLAIMED),
        ShutdownRequested(),
    ],
    ids=["closed", "wanted", "shutdown"],
)
async def test_idle_ones_go_with_their_device(walled: Shop, event: Any) -> None:
    await walled.run(call_of(count))

    walled.pool.hear(event)

    assert walled.pool.now() == ()


async def test_a_recalled_call_ends_with_the_reason_of_the_recall(walled: Shop) -> None:
    running = asyncio.create_task(walled.run(call_of(behave, "sleep")))
    await _until(lambda: bool(walled.told))
    walled.recall.ask(EndReason.RECLAIMED, 5.0)
    result = await running

    assert result.ended.reason is EndReason.RECLAIMED
    assert walled.pool.now() == ()


def leave_two() -> None:
    for name in "ab":
        Path(os.environ["POTLUCK_OUTPUT"], name).write_bytes(os.urandom(2 * MIB))


async def test_files_are_taken_once_if_it_is_called_back_meanwhile(
    walled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, read = threading.Event(), collecting._content

    def slowly(descriptor: int, size: int) -> Iterator[bytes]:
        for data in read(descriptor, size):
            collected.set()
            time.sleep(0.2)
            yield data

    monkeypatch.setattr(collecting, "_content", slowly)
    running = asyncio.create_task(walled.run(call_of(leave_two)))
    await asyncio.to_thread(collected.wait, 20)
    walled.recall.ask(EndReason.RECLAIMED, 5.0)
    result = await running

    assert result.files == ["a", "b"]
    outbox = walled.outboxes[-1]
    for parcel in outbox.parcels:
        content = outbox.read(parcel, 0, parcel.blob.size_bytes)
        assert hashlib.sha256(content).hexdigest() == parcel.blob.sha256


async def test_a_cancelled_call_leaves_no_process(walled: Shop) -> None:
    running = asyncio.create_task(walled.run(call_of(behave, "sleep")))
    await _until(lambda: bool(walled.told))
    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    assert not _sandboxes()


async def _until(is_so: Any) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


def _sandboxes() -> set[int]:
    """Those of this test: others may have left children here, too."""
    return _bwraps() - _FOUND


def _bwraps() -> set[int]:
    return {pid for pid, name in _started().items() if name == "bwrap"}


def _started() -> dict[int, str]:
    """The processes that this one and those below it have started, and their names."""
    names = {}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            names[child.pid] = child.name()
    return names
