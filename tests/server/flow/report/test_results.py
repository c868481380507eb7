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
    node_reports = Started(lease_of(grant)), gave(grant, b"42")
    assert await pool.report(node.node_id, *node_reports) == ["accepted"] * 2
    assert await pool.report(node.node_id, gave(grant, b"42")) == ["accepted"], "said once more"
    async with asyncio.timeout(5):
        (result,) = await waits
    assert (result.state, result.behind, result.has_more) == (TaskState.SUCCEEDED, 1, False)
    assert shown(result.pieces) == [(0, 1, b"42", False)]
    assert result.pieces[0].node_id == node.node_id
    assert result.pieces[0].wallet == Wallet("bob").address
    (later_result,) = await ask(pool, task.id, behind=1)
    assert (later_result.state, later_result.pieces) == (TaskState.SUCCEEDED, []), (
        "what is over is always told"
    )
    assert await pool.report(node.node_id, gave(grant, b"43")) == ["conflict"]
    await pool.check()


async def test_all_reports_of_an_attempt_are_one_transaction(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    wrong = replace(gave(grant, b"1"), reason=EndReason.SIGNAL, exit_code=None)
    assert await pool.report(node.node_id, Started(lease_of(grant)), wrong) == [
        "accepted",
        "invalid_input",
    ]
    assert (await pool.task(task.id)).state is TaskState.RUNNING, "one does not fail for another"
    node_reports = Started(lease_of(grant)), gave(grant, b"1")
    assert await pool.report(node.node_id, *node_reports) == ["accepted"] * 2
    second_task = await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    node_reports = Started(lease_of(grant)), gave(grant, b"2")
    assert await pool.report(node.node_id, *node_reports) == ["accepted"] * 2
    is_one_transaction = "SELECT started_at = finished_at FROM attempts WHERE task_id = $1"
    assert not await pool.sql(is_one_transaction, task.id)
    assert await pool.sql(is_one_transaction, second_task.id), "by the clock of one transaction"
    await pool.check()


async def test_a_try_that_is_repeated_leaves_no_error(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool, max_attempts=2)
    for last in (False, True):
        await pool.plan()
        (grant,) = await pool.fetch(node.node_id)
        last_report = gave(grant, b"no luck", EndReason.EXCEPTION)
        assert (
            await pool.report(node.node_id, Started(lease_of(grant)), last_report)
            == ["accepted"] * 2
        )
        assert bool(await ask(pool, task.id)) is last
    (result,) = await ask(pool, task.id)
    assert (result.state, result.reason) == (TaskState.FAILED, EndReason.EXCEPTION)
    assert shown(result.pieces) == [(0, 1, b"no luck", True)]


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
    without_value = replace(gave(function, b"x"), value=None)
    bad_reports = (killed, gave(script, b"x"), both, unsent, without_value)
    assert await pool.report(node.node_id, *bad_reports) == ["invalid_input"] * 5
    assert await pool.report(node.node_id, without_value) == ["invalid_input"], "also by itself"
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
    failed_item = ItemsDone(lease_of(grant), (ItemOutcome(5, EndReason.TIME_LIMIT, 0.0),))
    assert await pool.report(node.node_id, failed_item, returned(grant, 7, 8)) == ["accepted"] * 2
    (result,) = await ask(pool, task.id)
    assert (result.state, result.behind) == (TaskState.RUNNING, 4)
    first = item_file.pack([b"0", b"1", b"2", b"3"])
    assert shown(result.pieces) == [
        (0, 4, first, False),
        (6, 7, b"an error", True),
        (5, 6, b"", True),
        (7, 8, item_file.pack([b"7"]), False),
    ]
    assert shown((await ask(pool, task.id, behind=3))[0].pieces) == shown(result.pieces)[3:]
    counts = (await pool.task(task.id)).items
    assert counts is not None and (counts.succeeded, counts.failed) == (5, 2)
    await pool.check()


async def test_an_item_that_is_tried_again_has_no_error_yet(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool, items=1, max_attempts=2)
    first = await give(pool, node, task.id, 0, 1)
    await pool.report(node.node_id, raised(first, 0), done(first))
    assert await ask(pool, task.id) == []
    second_grant = await give(pool, node, task.id, 0, 1)
    await pool.report(node.node_id, returned(second_grant, 0, 1), done(second_grant))
    (result,) = await ask(pool, task.id)
    assert shown(result.pieces) == [(0, 1, item_file.pack([b"0"]), False)]
    assert result.state is TaskState.SUCCEEDED


async def test_only_items_of_functions_return_values(pool: Pool) -> None:
    node, other = await pool.offer(), await pool.offer()
    script, function = await pool.submit(items=3), await call(pool, items=3)
    range_grant = await give(pool, other, script.id, 0, 3)
    assert await pool.report(other.node_id, returned(range_grant, 0, 3)) == ["invalid_input"]
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
    offset, pages = 0, 0
    while True:
        (result,) = await ask(pool, task.id, offset)
        assert [piece.start for piece in result.pieces] == list(range(offset, result.behind))
        assert sum(len(piece.value.data) for piece in result.pieces) < 5 * 2**20
        offset, pages = result.behind, pages + 1
        if not result.has_more:
            break
    assert (offset, pages) == (40, 3)


async def test_results_are_sealed_and_nobody_elses(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)), gave(grant, b"planted-secret"))
    assert b"planted" not in await pool.sql("SELECT sealed_value FROM results")
    with pytest.raises(NotFound):
        await result_poll.wait_for_results(pool.services, pool.bob, AskResults((Wanted(task.id),)))
