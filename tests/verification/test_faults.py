"""Histories full of faults break nothing; and what would break them is noticed."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import msgspec
import psutil
import pytest

from potluck.decide import attempt_change
from potluck.decide.attempt_change import AttemptChange
from potluck.model.device import Availability
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.report import report
from potluck.store.attempts import attempts, changes, leases
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.scheduler import node_feed
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import compile_query, load, read_sources
from verification.faults import server_instance
from verification.faults.history import HistoryOutcome, run_seed
from verification.faults.history_plan import HistoryPlan, has_large_tasks
from verification.faults.sessions import Sessions
from verification.faults.virtual_loop import VirtualLoop
from verification.faults.worker import WorkerSettings
from verification.faults.worker_pool import RunTally, run_many

# What breaks an invariant shows while there are faults: these histories end with them.
_SMALL = HistoryPlan(nodes=4, steps=250, is_repaired=False)
_COMMAND = [sys.executable, "-m", "verification.faults"]


def verify(*options: str) -> tuple[int, dict[str, object]]:
    command = [*_COMMAND, *options, "--json"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=3_000)
    assert process.stdout, process.stderr
    return process.returncode, json.loads(process.stdout.splitlines()[0])


_KINDS = (
    *("answer_lost", "clock_jumped", "commit_unheard", "cut_back", "cut_both", "cut_there"),
    *("database_away", "instance_killed", "instance_paused", "instance_stopped", "node_left"),
    *("provider_killed", "provider_wiped", "request_lost", "request_twice", "wake_lost"),
    *("device_paused", "device_reclaimed", "device_sick", "terms_changed"),
    *("interleaved", "blocked"),
)


@pytest.mark.timeout(900)
def test_many_histories_break_nothing() -> None:
    status, summary = verify("--seeds", "12", "--steps", "200", "--nodes", "3", "--workers", "1")
    assert summary["failures"] == []
    assert (status, summary["seeds"], summary["violations"]) == (0, 12, 0)
    assert summary["next_seed"] is None
    assert int(str(summary["steps"])) > 12 * 200
    happened = set(dict(summary["faults"]))  # type: ignore[call-overload]
    assert set(_KINDS) <= happened, "a kind of fault did not happen"


@pytest.mark.timeout(600)
def test_seeds_replay_step_by_step_in_another_process() -> None:
    """Also with other hashes and other addresses: nothing may depend on the order of a set."""
    first = _trace({"PYTHONHASHSEED": "0", "PYTHONMALLOC": "pymalloc"})
    second = _trace({"PYTHONHASHSEED": "1", "PYTHONMALLOC": "malloc"})
    assert len(first) > 20
    assert _digest(first) == _digest(second), _first_difference(first, second)


def _trace(environment: dict[str, str]) -> list[str]:
    options = ["--seeds", "8-10", "--steps", "60", "--workers", "1", "--trace", "--json"]
    process = subprocess.run(
        [*_COMMAND, *options],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert process.returncode == 0, process.stderr
    return process.stderr.splitlines()


def _digest(trace: list[str]) -> str:
    return hashlib.sha256("\n".join(trace).encode()).hexdigest()


def _first_difference(first: list[str], second: list[str]) -> str:
    pairs = zip(first, second, strict=False)
    return next((f"{line}\n{other}" for line, other in pairs if line != other), "one is longer")


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_hundreds_of_nodes_can_take_part(sessions: Sessions) -> None:
    outcome = run_seed(sessions, 1, HistoryPlan(nodes=200, accounts=20, steps=5_000))
    assert outcome.violations == []


def _broken_by(
    sessions: Sessions, seeds: range = range(40), plan: HistoryPlan = _SMALL
) -> HistoryOutcome:
    for seed in seeds:
        outcome = run_seed(sessions, seed, plan)
        if outcome.violations:
            return outcome
    raise AssertionError("no history noticed it")


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_work_that_is_given_to_two_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    """A lease that is taken back although its task was given to another."""
    honest = leases.adopt

    async def adopt(connection: object, attempt_id: str, node_id: str, **options: object) -> object:
        revived = await connection.fetch(  # type: ignore[attr-defined]
            "UPDATE attempts SET state = 'running', finished_at = NULL"
            " WHERE id = $1 AND state = 'lost' RETURNING id",
            attempt_id,
        )
        if revived:
            return None
        return await honest(connection, attempt_id, node_id, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "adopt", adopt)
    # A lease is lost after more virtual seconds than the faults take.
    assert _broken_by(sessions, plan=HistoryPlan(nodes=4, steps=250)).violations


def test_a_report_that_frees_its_devices_twice_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    honest = changes.write

    async def write(
        connection: Connection,
        vault: Vault,
        written: Sequence[AttemptChange],
        events: Sequence[Event],
        slice_seconds: float,
    ) -> None:
        await honest(connection, vault, written, events, slice_seconds)
        for change in written:
            await connection.execute(
                "UPDATE nodes SET used_cores = greatest(0, used_cores - attempts.cores)"
                " FROM attempts WHERE attempts.id = $1 AND nodes.id = attempts.node_id",
                change.attempt.id,
            )

    monkeypatch.setattr(changes, "write", write)
    assert any("in use" in sentence for sentence in _broken_by(sessions).violations)


def test_work_on_a_device_that_is_away_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    """A leader that has not heard how an owner changed a device, and nothing checks its plan."""
    monkeypatch.setattr(node_feed, "Availability", lambda _: Availability.AVAILABLE)
    _remove(monkeypatch, "assign", "assign", "AND availability = 'available'")
    assert any("came to" in sentence for sentence in _broken_by(sessions).violations)


def test_work_that_is_handed_out_after_a_pause_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    monkeypatch.setattr(attempts, "list_unfetched", _none)
    _remove(monkeypatch, "attempts", "fetch", "WHERE availability <> 'available'", "WHERE false")
    assert any("handed out" in sentence for sentence in _broken_by(sessions).violations)


def _remove(
    monkeypatch: pytest.MonkeyPatch, file: str, block: str, clause: str, replacement: str = ""
) -> None:
    source = read_sources(file)[block]
    assert clause in source, f"{file}.{block} has changed"
    planted = compile_query(block, source.replace(clause, replacement))
    monkeypatch.setitem(load(file).blocks, block, planted)


async def _none(*_: object) -> list[str]:
    return []


def test_an_owner_who_is_blamed_without_fault_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    monkeypatch.setattr(attempt_change, "is_nodes_fault", lambda reason, **_: reason != "silence")
    assert any("are its own" in sentence for sentence in _broken_by(sessions).violations)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_leases_that_never_expire_are_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    async def expire_nothing(*_: object) -> int:
        return 0

    monkeypatch.setattr(expire, "_expire_leases", expire_nothing)
    outcome = _broken_by(sessions, plan=HistoryPlan(nodes=4, steps=250))
    assert any("forever" in sentence for sentence in outcome.violations)


def test_a_server_that_raises_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    def check_token(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(report, "check_token", check_token)
    assert "planted" in str(_broken_by(sessions).violations)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_large_tasks_that_starve_among_small_ones_are_noticed(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    """Nothing is ever reserved."""
    never_soon = msgspec.structs.replace(server_instance.SOON, after_seconds=1e9)
    monkeypatch.setattr(server_instance, "SOON", never_soon)
    large = range(15, 16 * 40, 16)
    assert all(map(has_large_tasks, large))
    plan = HistoryPlan(2, steps=50)
    assert any("starves" in text for text in _broken_by(sessions, large, plan).violations)


def test_a_history_that_does_not_end_is_a_failure_and_can_be_replayed() -> None:
    options = ["--seeds", "7-7", "--nodes", "2", "--steps", "1000000", "--seconds", "5", "--json"]
    process = subprocess.run([*_COMMAND, *options], capture_output=True, text=True, timeout=200)
    summary = json.loads(process.stdout)
    assert (process.returncode, summary["seeds"], summary["violations"]) == (1, 1, 1), (
        process.stderr
    )
    assert "had not ended after 5 s" in str(summary["failures"])
    assert "(most recent call first)" in process.stderr, "it prints where it was"
    assert (
        "python -m verification.faults --seed 7 --nodes 2 --steps 1000000 --trace" in process.stderr
    )


def test_an_interrupted_run_gives_its_summary_and_the_next_seed() -> None:
    def stop(outcome: HistoryOutcome, _: RunTally) -> None:
        if outcome.seed == 1:
            raise KeyboardInterrupt

    settings = WorkerSettings(HistoryPlan(nodes=1, steps=1), 200.0)
    summary = run_many(range(100), settings, workers=1, seen=stop)
    assert (summary.seeds, summary.next_seed) == (2, 2)


def test_a_seed_whose_process_dies_is_a_failure_and_the_others_go_on() -> None:
    def kill(outcome: HistoryOutcome, _: RunTally) -> None:
        if outcome.seed == 0:
            (worker,) = (
                process
                for process in psutil.Process().children()
                # What other tests started may have ended, and has no command line any more.
                if process.status() != psutil.STATUS_ZOMBIE
                and "verification.faults.worker" in process.cmdline()
            )
            worker.kill()

    settings = WorkerSettings(HistoryPlan(nodes=1, steps=1), 200.0)
    summary = run_many(range(3), settings, workers=1, seen=kill)
    (failure,) = summary.failures
    assert (summary.seeds, summary.violations, failure.seed) == (3, 1, 1)
    assert failure.violations == ["its process ended with status -9"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--seeds", "0"), ("--seeds", "9-3"), ("--steps", "99999999999"), ("--steps", "0")],
)
def test_no_histories_and_endless_ones_are_refused(option: str, value: str) -> None:
    process = subprocess.run([*_COMMAND, option, value], capture_output=True, text=True, timeout=60)
    assert process.returncode == 2
    assert option in process.stderr


def test_virtual_time_costs_no_time() -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.sleep(1_000_000))
        assert loop.time() >= 1_000_000
    finally:
        loop.close()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_hundreds_of_histories_break_nothing() -> None:
    _, summary = verify("--seeds", "1000-1299")
    assert summary["failures"] == []
