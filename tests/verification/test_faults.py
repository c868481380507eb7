"""Hundreds of histories full of faults, and nothing is broken; and what would be, is noticed."""

import asyncio
import json
import os
import subprocess
import sys

import msgspec
import psutil
import pytest
from potluck.simulate.faults import instance
from potluck.simulate.faults.clock import VirtualLoop
from potluck.simulate.faults.many import Tally, run_many
from potluck.simulate.faults.plan import Plan, has_large_tasks
from potluck.simulate.faults.run import Outcome, run_seed
from potluck.simulate.faults.worker import Order
from potluck.simulate.store import assign as store_assign
from potluck.simulate.store import attempts as store_attempts

from potluck.cli.main import execute
from potluck.model.device import Availability
from potluck.server.flow import report, settle
from potluck.store import attempts, changes, feed, leases
from potluck.store.changes import Changes

_SMALL = Plan(nodes=4, steps=250)


def simulate(*options: str) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-m", "potluck", "simulate", "faults", *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[0])


@pytest.mark.timeout(600)
def test_many_histories_break_nothing() -> None:
    status, told = simulate("--seeds", "100", "--steps", "40", "--nodes", "3", "--workers", "1")
    assert told["failures"] == []
    assert (status, told["seeds"], told["violations"], told["next_seed"]) == (0, 100, 0, None)
    assert int(str(told["steps"])) > 100 * 40
    assert set(_KINDS) <= set(dict(told["faults"])), "a kind of fault did not happen"  # type: ignore[call-overload]


_KINDS = (
    *("answer_lost", "clock_jumped", "commit_unheard", "cut_back", "cut_both", "cut_there"),
    *("database_away", "instance_killed", "instance_paused", "instance_stopped", "node_left"),
    *("provider_killed", "provider_wiped", "request_lost", "request_twice", "wake_lost"),
    *("device_paused", "device_reclaimed", "device_sick", "terms_changed"),
)


def test_seeds_replay_step_by_step_in_another_process() -> None:
    """Also where memory lies elsewhere: nothing may go by the order of addresses."""
    first, second = (_trace(allocator) for allocator in ("pymalloc", "malloc"))
    assert first == second
    assert len(first) > 20


def _trace(allocator: str) -> list[str]:
    options = ["--seeds", "8-13", "--steps", "50", "--workers", "1"]
    command = [sys.executable, "-m", "potluck", "simulate", "faults", *options, "--trace", "--json"]
    environment = {**os.environ, "PYTHONMALLOC": allocator}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_thousands_of_nodes_can_take_part() -> None:
    outcome = run_seed(1, Plan(nodes=2000, accounts=20, steps=20_000))
    assert outcome.violations == []


def _broken_by(seeds: range = range(40), plan: Plan = _SMALL) -> Outcome:
    for seed in seeds:
        outcome = run_seed(seed, plan)
        if outcome.violations:
            return outcome
    raise AssertionError("nobody noticed")


def test_work_that_is_given_to_two_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that is taken back although its task was given to another."""
    honest = leases.adopt

    async def adopt(
        connection: object, attempt_id: object, node_id: object, **how: object
    ) -> object:
        for row in connection._data.attempts.all():  # type: ignore[attr-defined]
            if row["id"] == attempt_id and row["state"] == "lost":
                connection._data.attempts.update(row, {"state": "running", "finished_at": None})  # type: ignore[attr-defined]
                return None
        return await honest(connection, attempt_id, node_id, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "adopt", adopt)
    assert _broken_by().violations


def test_a_report_that_nobody_fences_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What frees its devices twice."""
    honest = changes.write

    async def write(connection: object, vault: object, told: Changes) -> None:
        await honest(connection, vault, told)  # type: ignore[arg-type]
        data = connection._data  # type: ignore[attr-defined]
        for end in told.attempts:
            row = data.attempts.get(end.attempt_id)
            node = data.nodes.get(row["node_id"])
            data.nodes.update(node, {"used_cores": max(0, node["used_cores"] - row["cores"])})

    monkeypatch.setattr(changes, "write", write)
    assert any("in use" in each for each in _broken_by().violations)


def test_work_on_a_device_that_is_away_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that has not heard how an owner changed his mind, and nobody looks at its plan."""
    monkeypatch.setattr(feed, "Availability", lambda _: Availability.AVAILABLE)
    honest, there = store_assign._is_given, {"availability": "available"}
    monkeypatch.setattr(
        store_assign,
        "_is_given",
        lambda data, device, task, milli: honest(data, {**device, **there}, task, milli),
    )
    assert any("came to" in each for each in _broken_by().violations)


def test_work_that_is_handed_out_after_a_pause_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "unfetched", _none)
    monkeypatch.setattr(store_attempts, "_may_be_given", lambda data, attempt: True)
    assert any("handed out" in each for each in _broken_by().violations)


async def _none(*_: object) -> list[str]:
    return []


def test_an_owner_who_is_blamed_for_what_he_may_do_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settle, "is_nodes_fault", lambda reason, **_: reason != "silence")
    assert any("are its own" in each for each in _broken_by().violations)


def test_a_server_that_raises_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_token(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(report, "check_token", check_token)
    assert "planted" in str(_broken_by().violations)


def test_large_tasks_that_starve_among_small_ones_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is ever kept for who has waited long."""
    monkeypatch.setattr(instance, "SOON", msgspec.structs.replace(instance.SOON, after_seconds=1e9))
    large = range(15, 16 * 40, 16)
    assert all(map(has_large_tasks, large))
    assert any("starves" in each for each in _broken_by(large, Plan(2, steps=50)).violations)


def test_a_history_that_does_not_end_is_a_failure_and_can_be_replayed() -> None:
    command = [sys.executable, "-m", "potluck", "simulate", "faults", "--seeds", "7-7"]
    options = ["--nodes", "2", "--steps", "1000000", "--seconds", "2", "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    told = json.loads(done.stdout)
    assert (done.returncode, told["seeds"], told["violations"]) == (1, 1, 1), done.stderr
    assert "had not come to its end after 2 s" in str(told["failures"])
    assert "(most recent call first)" in done.stderr, "it says where it was"
    assert "potluck simulate faults --seed 7 --nodes 2 --steps 1000000 --trace" in done.stderr


def test_who_stops_it_learns_what_there_was_and_where_to_go_on() -> None:
    def stop(outcome: Outcome, _: Tally) -> None:
        if outcome.seed == 1:
            raise KeyboardInterrupt

    summary = run_many(range(100), Order(Plan(nodes=1, steps=1), 60.0), workers=1, seen=stop)
    assert (summary.seeds, summary.next_seed) == (2, 2)


def test_a_seed_whose_process_dies_is_a_failure_and_the_others_go_on() -> None:
    def kill(outcome: Outcome, _: Tally) -> None:
        if outcome.seed == 0:
            (worker,) = (
                each
                for each in psutil.Process().children()
                # What other tests started may have ended, and has no command line any more.
                if each.status() != psutil.STATUS_ZOMBIE
                and "potluck.simulate.faults.worker" in each.cmdline()
            )
            worker.kill()

    summary = run_many(range(3), Order(Plan(nodes=1, steps=1), 60.0), workers=1, seen=kill)
    (failure,) = summary.failures
    assert (summary.seeds, summary.violations, failure.seed) == (3, 1, 1)
    assert failure.violations == ["its process ended with status -9"]


@pytest.mark.parametrize(
    ("option", "value"), [("--seeds", "0"), ("--steps", "99999999999"), ("--steps", "0")]
)
def test_no_histories_and_endless_ones_are_refused(
    option: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert execute(["simulate", "faults", option, value]) == 64
    assert option in capfd.readouterr().err


def test_virtual_time_costs_no_time() -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.sleep(1_000_000))
        assert loop.time() >= 1_000_000
    finally:
        loop.close()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_thousands_of_histories_break_nothing() -> None:
    _, told = simulate("--seeds", "1000-5999")
    assert told["failures"] == []
