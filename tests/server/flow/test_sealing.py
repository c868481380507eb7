"""What is sensitive is sealed in the database, bound to its row, and its key can be changed."""

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.audit import AuditKind
from potluck.model.error import BadSettings, Conflict, Unopenable
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec, TaskSpec
from potluck.server.derived_keys import derive_keys
from potluck.server.encryption import rotation
from potluck.server.encryption.key_sources import KeyFile
from potluck.server.encryption.open_vault import open_vault
from potluck.server.flow.submit import submit
from potluck.store.identity import audit
from potluck.store.sealing import sealed_values
from potluck.store.sealing.vault import Vault, key_id, new_key
from potluck.wire import codec, item_file
from tests.server.flow.pool import Pool, done
from tests.server.flow.report.functions import ask, call, raised, returned
from tests.server.flow.schedule.arrays import give

SECRET = "the-planted-secret"


def request(number: int = 0) -> TaskRequest:
    return TaskRequest(ScriptSpec("job.py", f"{number}", ("--key", SECRET), {"TOKEN": SECRET}))


async def enter(pool: Pool, number: int = 0, key: str | None = None) -> TaskId:
    return (await submit.submit(pool.services, pool.alice, request(number), key)).id


async def granted(pool: Pool) -> list[TaskSpec]:
    """The specs that a node is given, in the order of their tasks."""
    node = await pool.offer(devices=8)
    await pool.plan()
    grants = await pool.fetch(node.node_id)
    return [grant.spec for grant in sorted(grants, key=lambda grant: grant.task_id)]


@pytest.fixture
async def filed(pool: Pool, tmp_path: Path) -> Pool:
    """The pool of a server that has started: the keys are in its file, the secret is sealed."""
    vault, keys = await open_vault(pool.services.settings, pool.services.database)
    return with_vault(pool, vault, keys=keys)


def with_vault(pool: Pool, vault: Vault, **changes: object) -> Pool:
    parts = replace(pool.services, vault=vault, **changes)
    return Pool(parts, pool.alice, pool.bob, pool.leads)


def key_file(pool: Pool) -> KeyFile:
    assert isinstance(pool.services.vault.place, KeyFile)
    return pool.services.vault.place


async def rows_in_clear(pool: Pool) -> int:
    """Tasks that show the secret, in whatever column, as text or as bytes."""
    query = "SELECT count(*) FROM tasks WHERE tasks::text ~ ($1 || '|' || $2)"
    row_count: int = await pool.sql(query, SECRET, SECRET.encode().hex())
    return row_count


async def test_the_node_is_given_what_the_database_does_not_show(pool: Pool) -> None:
    await enter(pool)
    assert await rows_in_clear(pool) == 0
    assert await granted(pool) == [request().spec]


async def test_the_hash_of_a_request_cannot_be_guessed(pool: Pool) -> None:
    task_id = await enter(pool, key="once")
    plain = hashlib.sha256(codec.encode_json(request())).digest()
    assert await pool.sql("SELECT request_hash FROM tasks") != plain
    assert await enter(pool, key="once") == task_id, "and still tells the same request"
    with pytest.raises(Conflict):
        await enter(pool, number=1, key="once")


async def test_swapped_specs_do_not_open(pool: Pool) -> None:
    first_id, other = await enter(pool, 1), await enter(pool, 2)
    await pool.sql(
        "UPDATE tasks SET sealed_spec = there.sealed_spec FROM tasks AS there"
        " WHERE tasks.id <> there.id AND tasks.id IN ($1, $2)",
        first_id,
        other,
    )
    assert await granted(pool) == []
    for task_id in (first_id, other):
        task = await pool.task(task_id)
        assert (task.state, task.reason) == (TaskState.FAILED, EndReason.SPEC_UNREADABLE)
    await pool.check()


async def test_an_undecryptable_task_does_not_block_others(pool: Pool) -> None:
    damaged = (await pool.submit(max_attempts=5)).id
    damage = "set_byte(sealed_spec, 40, get_byte(sealed_spec, 40) # 1)"
    await pool.sql(f"UPDATE tasks SET sealed_spec = {damage}")
    await enter(pool)
    assert await granted(pool) == [request().spec]
    task = await pool.task(damaged)
    assert (task.state, task.reason) == (TaskState.FAILED, EndReason.SPEC_UNREADABLE)
    assert len(task.attempts) == 1, "and nobody tries again"
    await pool.check()


async def test_a_value_of_another_column_does_not_decrypt(filed: Pool) -> None:
    await enter(filed)
    await filed.sql("UPDATE tasks SET sealed_spec = (SELECT sealed_secret FROM installation)")
    assert await granted(filed) == []


async def test_earlier_rows_are_sealed_at_the_start(pool: Pool) -> None:
    """As version 0.1 left it: the request in the clear, its plain hash, the secret as it is."""
    tasks = [
        await enter(pool, number, f"key-{number}") for number in range(sealed_values.BATCH + 3)
    ]
    for number, task_id in enumerate(tasks):
        plain = codec.encode_json(request(number))
        await pool.sql(
            "UPDATE tasks SET request = $2, request_hash = $3, sealed_spec = NULL WHERE id = $1",
            task_id,
            request(number),
            hashlib.sha256(plain).digest(),
        )
    await pool.sql("INSERT INTO installation (lease_secret) VALUES ($1)", b"secret" * 6)
    assert await rows_in_clear(pool) == len(tasks)

    vault, keys = await open_vault(pool.services.settings, pool.services.database)
    assert keys == derive_keys(b"secret" * 6), "running leases stay valid"
    assert await pool.sql("SELECT count(*) FROM installation WHERE lease_secret IS NULL") == 1
    assert await rows_in_clear(pool) == 0
    after = with_vault(pool, vault)
    assert await enter(after, 3, "key-3") == tasks[3], "a repeated submission is still known"
    assert (await granted(after))[0] == request(0).spec


async def test_a_server_starts_with_the_key_of_its_database_or_not_at_all(filed: Pool) -> None:
    settings, database = filed.services.settings, filed.services.database
    key_bytes = key_file(filed).path.read_bytes()

    key_file(filed).path.unlink()
    with pytest.raises(BadSettings, match="its key file") as error_info:
        await open_vault(settings, database)
    assert "only if it is encrypted" in str(error_info.value.hint)
    assert not key_file(filed).exists(), "no new key was made for what an old one sealed"

    key_file(filed).put([new_key()])
    with pytest.raises(BadSettings, match="does not belong to this database"):
        await open_vault(settings, database)

    key_file(filed).path.write_bytes(key_bytes)
    vault, keys = await open_vault(settings, database)
    assert (vault.key_id, keys) == (filed.services.vault.key_id, filed.services.keys)


async def test_a_server_does_not_start_without_an_older_key_that_tasks_need(filed: Pool) -> None:
    await enter(filed)
    await rotation.begin(filed.services, filed.alice)
    ring = key_file(filed).read()
    key_file(filed).put(ring.keys[:1])
    with pytest.raises(BadSettings, match=key_id(ring.keys[1]).hex()):
        await open_vault(filed.services.settings, filed.services.database)


async def test_rotation_rewrites_all_and_changes_nothing_else(filed: Pool) -> None:
    count = 2 * sealed_values.BATCH + 1
    for number in range(count):
        await enter(filed, number)
    before = filed.services.vault.key_id
    select_versions = "SELECT array_agg(id || version || updated_at ORDER BY id) FROM tasks"
    versions = await filed.sql(select_versions)

    started_rotation = await rotation.begin(filed.services, filed.alice)
    assert (started_rotation.rewritten, started_rotation.remaining) == (1, count), (
        "the secret at once, the rest by calls"
    )
    finished_rotation = await rotation.rewrite(filed.services, filed.alice)
    assert (finished_rotation.rewritten, finished_rotation.remaining) == (count, 0)
    assert (
        started_rotation.key_id == finished_rotation.key_id == filed.services.vault.key_id != before
    )

    assert await filed.sql(select_versions) == versions, "nobody who follows a task is woken for it"
    used = "SELECT array_agg(DISTINCT encode(sealed_by, 'hex')) FROM tasks"
    assert await filed.sql(used) == [finished_rotation.key_id]
    vault, keys = await open_vault(filed.services.settings, filed.services.database)
    assert keys == filed.services.keys, "the secret stayed the same"
    assert (await granted(with_vault(filed, vault)))[0] == request(0).spec


async def test_rotation_reaches_secrets_and_what_functions_gave(filed: Pool) -> None:
    node = await filed.offer()
    secret, task = {"PASSWORD": SECRET}, await call(filed, items=3)
    grant = await give(filed, node, task.id, 0, 3)
    await filed.report(node.node_id, returned(grant, 0, 2), raised(grant, 2), done(grant))
    trusting = replace(request(), secrets=secret, secrets_to_strangers=True)
    await submit.submit(filed.services, filed.alice, trusting, None)

    rotation_status = await rotation.begin(filed.services, filed.alice)
    assert rotation_status.remaining == 5, "two specs, the secrets and two results"
    first = key_file(filed).read().keys[0]
    assert (await rotation.rewrite(filed.services, filed.alice)).rewritten == 5
    key_file(filed).put([first])
    vault, _ = await open_vault(filed.services.settings, filed.services.database)
    after = with_vault(filed, vault)
    await after.plan()
    assert [grant.secrets for grant in await after.fetch(node.node_id)] == [secret]
    (result,) = await ask(after, task.id)
    assert [piece.value.data for piece in result.pieces] == [
        item_file.pack([b"0", b"1"]),
        b"an error",
    ]


async def test_a_result_that_was_moved_is_passed_over(filed: Pool) -> None:
    node, task = await filed.offer(), await call(filed, items=2)
    grant = await give(filed, node, task.id, 0, 2)
    await filed.report(node.node_id, returned(grant, 0, 1), returned(grant, 1, 2), done(grant))
    await filed.sql(
        "UPDATE results SET sealed_value = there.sealed_value FROM results AS there"
        " WHERE results.number = 1 AND there.number = 2"
    )
    with pytest.raises(Unopenable):
        await ask(filed, task.id)
    await rotation.begin(filed.services, filed.alice)
    rotation_status = await rotation.rewrite(filed.services, filed.alice)
    progress = (rotation_status.rewritten, rotation_status.remaining, rotation_status.unreadable)
    assert progress == (2, 0, 1)


async def test_rotation_is_on_the_record(filed: Pool) -> None:
    before = filed.services.vault.key_id
    rotation_status = await rotation.begin(filed.services, filed.alice)
    await rotation.rewrite(filed.services, filed.alice)
    async with filed.services.database.transaction() as connection:
        (entry,) = await audit.newest(connection, 2**62, 10)
    assert (entry.kind, entry.actor) == (AuditKind.ENCRYPTION_KEY_ROTATED, filed.alice)
    assert entry.detail == {"before": before, "after": rotation_status.key_id}


async def test_a_key_leaves_the_file_when_nothing_needs_it(filed: Pool) -> None:
    await enter(filed)
    (first,) = key_file(filed).read().keys
    await rotation.begin(filed.services, filed.alice)
    second = key_file(filed).read().keys[0]
    await rotation.begin(filed.services, filed.alice)  # the task still waits to be rewritten
    third = key_file(filed).read().keys[0]
    assert key_file(filed).read().keys == (third, second, first)

    assert (await rotation.rewrite(filed.services, filed.alice)).remaining == 0
    assert key_file(filed).read().keys == (third, second, first), "not before the next rotation"
    await rotation.begin(filed.services, filed.alice)
    fourth = key_file(filed).read().keys[0]
    assert key_file(filed).read().keys == (fourth, third)
    assert await granted(filed) == [request().spec]


async def test_another_instance_follows_without_a_message(filed: Pool) -> None:
    other = with_vault(filed, Vault(KeyFile(key_file(filed).path)))
    await enter(filed)
    rotation_status = await rotation.begin(filed.services, filed.alice)
    await rotation.rewrite(filed.services, filed.alice)
    assert other.services.vault.key_id != rotation_status.key_id
    assert await granted(other) == [request().spec], "it reads what the new key sealed"
    await enter(other)
    assert other.services.vault.key_id == rotation_status.key_id, "and seals with it"


async def test_locked_rows_are_left_for_the_next_call(filed: Pool) -> None:
    locked_task, free = await enter(filed, 1), await enter(filed, 2)
    await rotation.begin(filed.services, filed.alice)
    async with filed.services.database.transaction() as connection:
        await connection.execute("SELECT FROM tasks WHERE id = $1 FOR UPDATE", locked_task)
        rotation_status = await rotation.rewrite(filed.services, filed.alice)
        assert (rotation_status.rewritten, rotation_status.remaining) == (1, 1), free
    assert (await rotation.rewrite(filed.services, filed.alice)).remaining == 0


async def test_keys_that_others_keep_are_not_made_here_but_used_when_they_change(
    filed: Pool,
) -> None:
    await enter(filed)
    (old,) = key_file(filed).read().keys
    fresh = new_key()
    key_settings = replace(filed.services.settings, encryption_key=f"{fresh.hex()},{old.hex()}")
    vault, _ = await open_vault(key_settings, filed.services.database)
    moved = with_vault(filed, vault)
    with pytest.raises(Conflict, match="POTLUCK_ENCRYPTION_KEY"):
        await rotation.begin(moved.services, moved.alice)
    rotation_status = await rotation.rewrite(moved.services, moved.alice)
    assert (rotation_status.key_id, rotation_status.rewritten, rotation_status.remaining) == (
        key_id(fresh).hex(),
        2,
        0,
    )


async def damage(pool: Pool, count: int) -> None:
    """The oldest so many, in their last byte."""
    await pool.sql(
        "UPDATE tasks SET sealed_spec = set_byte(sealed_spec, length(sealed_spec) - 1,"
        " 255 - get_byte(sealed_spec, length(sealed_spec) - 1))"
        " WHERE id IN (SELECT id FROM tasks ORDER BY id LIMIT $1)",
        count,
    )


async def test_damaged_rows_are_passed_over_and_counted(filed: Pool) -> None:
    """More of them than fit into a batch, so that the first one has nothing but them."""
    count = 2 * sealed_values.BATCH
    for number in range(count):
        await enter(filed, number)
    await damage(filed, sealed_values.BATCH + 1)
    before = key_file(filed).read().keys[0]
    started_rotation = await rotation.begin(filed.services, filed.alice)
    assert (started_rotation.remaining, started_rotation.unreadable) == (count, 0), (
        "nobody has looked yet"
    )

    finished_rotation = await rotation.rewrite(filed.services, filed.alice)
    assert (finished_rotation.rewritten, finished_rotation.remaining) == (
        sealed_values.BATCH - 1,
        0,
    )
    assert finished_rotation.unreadable == sealed_values.BATCH + 1
    used = "SELECT count(*) FROM tasks WHERE encode(sealed_by, 'hex') = $1"
    assert await filed.sql(used, finished_rotation.key_id) == sealed_values.BATCH - 1

    await rotation.begin(filed.services, filed.alice)
    await rotation.begin(filed.services, filed.alice)
    assert before in key_file(filed).read().keys, "a mended row would still find its key"


async def test_rows_with_a_missing_key_are_counted(filed: Pool) -> None:
    await enter(filed, 1)
    await enter(filed, 2)
    await filed.sql(
        "UPDATE tasks SET sealed_spec = overlay(sealed_spec PLACING 'none'::bytea FROM 2)"
        " WHERE id = (SELECT min(id) FROM tasks)"
    )
    await rotation.begin(filed.services, filed.alice)
    rotation_status = await rotation.rewrite(filed.services, filed.alice)
    assert (rotation_status.rewritten, rotation_status.remaining, rotation_status.unreadable) == (
        1,
        0,
        1,
    )


async def test_the_start_removes_what_a_crash_left_of_the_keys(filed: Pool, tmp_path: Path) -> None:
    draft = tmp_path / ".encryption-key.0a1b2c3d"
    draft.write_bytes(key_file(filed).path.read_bytes())
    await open_vault(filed.services.settings, filed.services.database)
    assert not draft.exists() and key_file(filed).exists()


async def test_a_missing_key_file_has_a_hint_to_share_it(filed: Pool) -> None:
    key_file(filed).path.unlink()
    with pytest.raises(BadSettings) as error_info:
        await open_vault(filed.services.settings, filed.services.database)
    assert "share one file" in error_info.value.hint
