"""What functions gave is kept with what accepts it, and found by whoever asks."""

import asyncio

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value
from potluck.model.error import NotFound
from potluck.model.task import EndReason, TaskState
from potluck.model.task_spec import kind_of
from potluck.server.flow.report import result_poll
from potluck.wire import item_file
from potluck.wire.provider import ItemOutcome, ItemsDone, Started
from potluck.wire.results import AskResults, Wanted
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.report.functions import ask, call, gave, raised, returned, shown
from tests.server.flow.schedule.arrays import give
from tests.wallets import Wallet


def patient(pool: Pool) -> Pool:
    """Polls wait for as long as they are asked to, and look only when they are woken."""
    seconds = {"poll_seconds": 60.0, "follow_poll_seconds": 60.0}
    settings = replace(pool.services.settings, **seconds)
    parts = replace(pool.services, settings=settings)
    return Pool(parts, pool.alice, pool.bob, pool.leads)


async def test_a_call_gives_its_value_with_its_end(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool)
    assert await ask(pool, task.id) == []
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    waits = asyncio.create_task(ask(patient(pool), task.id, wait=30.0))
    said = Started(lease_of(grant)), gave(grant, b"42")
    assert await pool.report(node.node_id, *said) == ["accepted"] * 2
    assert await pool.report(node.node_id, gave(grant, b"42")) == ["accepted"], "said once more"
    async with asyncio.timeout(5):
        (found,) = await waits
    assert (found.state, found.behind, found.has_more) == (TaskState.SUCCEEDED, 1, False)
    assert shown(found.pieces) == [(0, 1, b"42", False)]
    assert found.pieces[0].node_id == node.node_id
    assert found.pieces[0].wallet == Wallet("bob").address
    (again,) = await ask(pool, task.id, behind=1)
    assert (again.state, again.pieces) == (TaskState.SUCCEEDED, []), "what is over is always told"
    assert await pool.report(node.node_id, gave(grant, b"43")) == ["conflict"]
    await pool.check()


async def test_what_is_said_of_one_attempt_is_one_transaction(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    wrong = replace(gave(grant, b"1"), reason=EndReason.SIGNAL, exit_code=None)
    assert await pool.report(node.node_id, Started(lease_of(grant)), wrong) == [
        "accepted",
        "invalid_input",
    ]
    assert (await pool.task(task.id)).state is TaskState.RUNNING, "one does not fail for another"
    said = Started(lease_of(grant)), gave(grant, b"1")
    assert await pool.report(node.node_id, *said) == ["accepted"] * 2
    again = await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    said = Started(lease_of(grant)), gave(grant, b"2")
    assert await pool.report(node.node_id, *said) == ["accepted"] * 2
    begun = "SELECT started_at = finished_at FROM attempts WHERE task_id = $1"
    assert not await pool.sql(begun, task.id)
    assert await pool.sql(begun, again.id), "by the clock of one transaction"
    await pool.check()


async def test_a_try_that_is_repeated_leaves_no_error(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool, max_attempts=2)
    for last in (False, True):
        await pool.plan()
        (grant,) = await pool.fetch(node.node_id)
        said = gave(grant, b"no luck", EndReason.EXCEPTION)
        assert await pool.report(node.node_id, Started(lease_of(grant)), said) == ["accepted"] * 2
        assert bool(await ask(pool, task.id)) is last
    (found,) = await ask(pool, task.id)
    assert (found.state, found.reason) == (TaskState.FAILED, EndReason.EXCEPTION)
    assert shown(found.pieces) == [(0, 1, b"no luck", True)]


async def test_only_a_call_that_came_to_its_end_gives_a_value(pool: Pool) -> None:
    node = await pool.offer(devices=2)
    await call(pool)
    await pool.submit()
    await pool.plan()
    grants = {kind_of(grant.spec): grant for grant in await pool.fetch(node.node_id)}
    script, function = grants["script"], grants["function"]
    killed = replace(gave(function, b"x"), reason=EndReason.SIGNAL, exit_code=None)
    twice = Value(b"x", BlobRef("0" * 64, 1))
    both = replace(gave(function, b"x"), value=twice)
    unsent = replace(gave(function, b"x"), value=Value(blob=BlobRef("0" * 64, 1)))
    nothing = replace(gave(function, b"x"), value=None)
    refused = (killed, gave(script, b"x"), both, unsent, nothing)
    assert await pool.report(node.node_id, *refused) == ["invalid_input"] * 5
    assert await pool.report(node.node_id, nothing) == ["invalid_input"], "also by itself"
    await pool.check()


async def test_items_give_their_values_in_runs_and_each_once(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool, items=10)
    grant = await give(pool, node, task.id, 0, 8)
    run = returned(grant, 0, 4)
    assert await pool.report(node.node_id, run, run) == ["accepted"] * 2
    assert await pool.report(node.node_id, returned(grant, 3, 6)) == ["invalid_input"]
    assert await pool.report(node.node_id, returned(grant, 6, 9)) == ["invalid_input"]
    assert await pool.report(node.node_id, returned(grant, 5, 5)) == ["invalid_input"]
    assert await pool.report(node.node_id, raised(grant, 6), raised(grant, 6)) == ["accepted"] * 2
    ended = ItemsDone(lease_of(grant), (ItemOutcome(5, EndReason.TIME_LIMIT, 0.0),))
    assert await pool.report(node.node_id, ended, returned(grant, 7, 8)) == ["accepted"] * 2
    (found,) = await ask(pool, task.id)
    assert (found.state, found.behind) == (TaskState.RUNNING, 4)
    first = item_file.pack([b"0", b"1", b"2", b"3"])
    assert shown(found.pieces) == [
        (0, 4, first, False),
        (6, 7, b"an error", True),
        (5, 6, b"", True),
        (7, 8, item_file.pack([b"7"]), False),
    ]
    assert shown((await ask(pool, task.id, behind=3))[0].pieces) == shown(found.pieces)[3:]
    counts = (await pool.task(task.id)).items
    assert counts is not None and (counts.succeeded, counts.failed) == (5, 2)
    await pool.check()


async def test_an_item_that_is_tried_again_has_no_error_yet(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool, items=1, max_attempts=2)
    first = await give(pool, node, task.id, 0, 1)
    await pool.report(node.node_id, raised(first, 0), done(first))
    assert await ask(pool, task.id) == []
    again = await give(pool, node, task.id, 0, 1)
    await pool.report(node.node_id, returned(again, 0, 1), done(again))
    (found,) = await ask(pool, task.id)
    assert shown(found.pieces) == [(0, 1, item_file.pack([b"0"]), False)]
    assert found.state is TaskState.SUCCEEDED


async def test_items_of_other_kinds_return_nothing_and_those_of_functions_something(
    pool: Pool,
) -> None:
    node, other = await pool.offer(), await pool.offer()
    script, function = await pool.submit(items=3), await call(pool, items=3)
    one = await give(pool, other, script.id, 0, 3)
    assert await pool.report(other.node_id, returned(one, 0, 3)) == ["invalid_input"]
    two = await give(pool, node, function.id, 0, 3)
    silent = ItemsDone(lease_of(two), (ItemOutcome(0, EndReason.COMPLETED, 0.0, 0),))
    assert await pool.report(node.node_id, silent) == ["invalid_input"]
    await pool.check()


async def test_an_answer_has_its_measure_and_says_that_there_is_more(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool, items=40)
    grant = await give(pool, node, task.id, 0, 40)
    large = Value(bytes(250_000))
    for item in range(40):
        assert await pool.report(node.node_id, returned(grant, item, item + 1, large)) == [
            "accepted"
        ]
    behind, pages = 0, 0
    while True:
        (found,) = await ask(pool, task.id, behind)
        assert [piece.start for piece in found.pieces] == list(range(behind, found.behind))
        assert sum(len(piece.value.data) for piece in found.pieces) < 5 * 2**20
        behind, pages = found.behind, pages + 1
        if not found.has_more:
            break
    assert (behind, pages) == (40, 3)


async def test_results_are_sealed_and_nobody_elses(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)), gave(grant, b"planted-secret"))
    assert b"planted" not in await pool.sql("SELECT sealed_value FROM results")
    with pytest.raises(NotFound):
        await result_poll.wait_for_results(pool.services, pool.bob, AskResults((Wanted(task.id),)))
