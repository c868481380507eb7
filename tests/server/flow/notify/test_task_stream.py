"""Logs are kept and read, and whoever follows a task sees all that happens to it, once."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.blobs.directory import DirectoryBlobs
from potluck.model.error import Conflict, TooLarge
from potluck.model.task import EndReason
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.notify import notify, task_stream
from potluck.wire.consumer import FollowedLog, FollowedState
from tests.server.flow.pool import Pool, done, lease_of

pytestmark = pytest.mark.every_postgres


async def test_logs_are_idempotent_by_offset_and_capped(pool: Pool) -> None:
    node_id, grant = await pool.started(log_bytes=1024)
    held_lease = lease_of(grant)
    assert await pool.say(node_id, held_lease, 0, "a", "b") == 2
    assert await pool.say(node_id, held_lease, 0, "a", "b", "c") == 3
    assert await pool.say(node_id, held_lease, 1, "b") == 3
    with pytest.raises(Conflict):
        await pool.say(node_id, held_lease, 9, "gap")
    with pytest.raises(TooLarge):
        await pool.say(node_id, held_lease, 3, "x" * 100_000)
    page = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 1)
    assert [piece.text for piece in page.pieces] == ["b", "c"]
    assert (page.next_offset, page.complete) == (3, False)
    for offset, text in ((-1, "c"), (-2, "bc"), (-9, "abc")):
        page = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, offset)
        assert "".join(piece.text for piece in page.pieces) == text, "from the end"
        assert (page.offset, page.next_offset) == (3 - len(text), 3)
    await pool.report(node_id, done(grant))
    assert (await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 3)).complete


async def test_pieces_have_the_time_of_their_arrival_unless_an_earlier_version_stored_them(
    pool: Pool, tmp_path: Path
) -> None:
    node_id, grant = await pool.started()
    async with pool.services.database.transaction() as connection:
        before = await connection.fetchval("SELECT now()")
    await pool.say(node_id, lease_of(grant), 0, "a")
    await pool.say(node_id, lease_of(grant), 1, "b", "c")
    page = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 0)
    times = [piece.at for piece in page.pieces if piece.at is not None]
    assert len(times) == 3 and before - timedelta(seconds=0.001) <= times[0] <= times[1]
    (key, *_) = sorted(await pool.services.blobs.list(f"logs/{grant.attempt_id}/"))
    older = DirectoryBlobs(tmp_path / "older")
    await older.put(key.rpartition("-")[0], await pool.services.blobs.get(key))
    other = replace(pool.services, blobs=older)
    page = await attempt_log.read_log(other, pool.alice, grant.task_id, None, 0)
    assert [(piece.text, piece.at) for piece in page.pieces] == [("a", None)]


async def test_a_log_on_another_instance_is_reported_as_such(pool: Pool, tmp_path: Path) -> None:
    node_id, grant = await pool.started()
    before = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 0)
    assert not before.elsewhere, "nothing was written yet"
    await pool.say(node_id, lease_of(grant), 0, "a", "b")
    other = replace(pool.services, blobs=DirectoryBlobs(tmp_path / "others"))
    page = await attempt_log.read_log(other, pool.alice, grant.task_id, None, 0)
    assert page.elsewhere and not page.pieces
    page = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 2)
    assert not page.elsewhere and not page.pieces


async def test_following_sees_every_state_and_every_piece_and_resumes(pool: Pool) -> None:
    node_id, grant = await pool.started()
    held_lease = lease_of(grant)
    descriptions: list[str] = []
    position = task_stream.StreamPosition()
    stream = task_stream.follow(pool.services, pool.alice, grant.task_id, position)
    await pool.say(node_id, held_lease, 0, "one")
    async for item in stream:
        descriptions.append(_told(item))
        position = item.position
        if descriptions[-1] == "one":
            break
    await stream.aclose()  # type: ignore[attr-defined]
    await pool.say(node_id, held_lease, 1, "two")
    await pool.report(node_id, done(grant))
    position = task_stream.parse_position(str(position))
    async for item in task_stream.follow(pool.services, pool.alice, grant.task_id, position):
        descriptions.append(_told(item))
    assert descriptions == ["running", "one", "two", "succeeded"], (
        "where it runs, before its output"
    )


async def test_a_follower_sees_that_the_node_is_silent_and_when_the_task_goes_elsewhere(
    pool: Pool,
) -> None:
    _, grant = await pool.started()
    view = await task_stream.view(pool.services, pool.alice, grant.task_id)
    assert view.silence is None, "a beat is not due yet"
    overdue = pool.services.settings.heartbeat_seconds * 1.6
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - make_interval(secs => $1)", overdue)
    position = task_stream.StreamPosition(view.version)
    stream = task_stream.follow(pool.services, pool.alice, grant.task_id, position)
    item = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert isinstance(item.event, FollowedState), "though its version is the same"
    silence = item.event.task.silence
    assert silence is not None
    assert silence.since == await pool.sql("SELECT heartbeat_at FROM nodes")
    assert silence.until == await pool.sql("SELECT lease_expires_at FROM attempts")
    await pool.sql("UPDATE nodes SET heartbeat_at = now()")
    assert (await task_stream.view(pool.services, pool.alice, grant.task_id)).silence is None


async def test_followers_are_woken_by_the_outbox(pool: Pool) -> None:
    task = await pool.submit()
    async with pool.services.live.listen(f"task:{task.id}") as listener:
        batch = await notify.notify_once(pool.services, 0)
        assert batch.count == 1
        assert await listener.wait(10)
        assert await notify.notify_once(pool.services, 0) == batch, "it ended before the mark"
        assert await listener.wait(10)
    empty_batch = notify.OutboxBatch(0, batch.place, False)
    assert await notify.notify_once(pool.services, batch.place) == empty_batch
    await notify.record_announced(pool.services, batch.place)
    assert await notify.notify_once(pool.services, 0) == empty_batch, "all is noted"


async def test_following_sees_the_end_of_an_attempt_that_failed(pool: Pool) -> None:
    node_id, grant = await pool.started(max_attempts=2)
    await pool.say(node_id, lease_of(grant), 0, "one")
    position = task_stream.StreamPosition(99, grant.attempt_id, 1)
    await pool.say(node_id, lease_of(grant), 1, "two")
    await pool.report(node_id, done(grant, EndReason.EXIT_STATUS, exit_code=1))
    await pool.plan()
    (second,) = await pool.fetch(node_id)
    await pool.say(node_id, lease_of(second), 0, "three")
    await pool.report(node_id, done(second))
    followed_items = task_stream.follow(pool.services, pool.alice, grant.task_id, position)
    assert [_told(item) async for item in followed_items] == ["two", "three"]


def _told(item: task_stream.TaskStreamItem) -> str:
    match item.event:
        case FollowedState(task):
            return task.state.value
        case FollowedLog(page):
            return "".join(piece.text for piece in page.pieces)
        case None:
            return "…"
