"""Tasks of every kind reach a node as they were submitted, and their secrets nobody else."""

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value
from potluck.model.error import InvalidInput
from potluck.model.node import SandboxReport
from potluck.model.task import EndReason, Requirements, TaskRequest, TaskState
from potluck.model.task_spec import CommandSpec, ContainerSpec, FunctionSpec, ScriptSpec, TaskSpec
from potluck.model.terms import TaskKind
from potluck.server.flow.notify import task_stream
from potluck.server.flow.schedule.explain_node import answer_about_node
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import submit
from potluck.server.flow.submit.submit_many import submit_many
from potluck.server.leader.memory import LeaderMemory
from potluck.wire import codec
from potluck.wire.provider import Started
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.schedule.arrays import place
from tests.wallets import Wallet

SECRET = "the-planted-secret"
KINDS: list[TaskSpec] = [
    ScriptSpec("hello.py", "print('hello')"),
    FunctionSpec("double", Value(b"\x80code"), Value(b"\x00\xff"), "3.11", ("numpy",)),
    CommandSpec(("nvidia-smi", "-L"), {"A": "b"}),
    ContainerSpec("busybox:1", ("true",)),
]
BOB = Wallet("bob").address


async def test_a_node_is_given_every_kind_as_it_was_submitted(pool: Pool) -> None:
    for spec in KINDS:
        await submit.submit(pool.services, pool.alice, TaskRequest(spec), None)
    node = await pool.offer(devices=4)
    await pool.plan()
    grants = await pool.fetch(node.node_id)
    assert [grant.spec for grant in sorted(grants, key=lambda grant: grant.task_id)] == KINDS


async def test_secrets_are_in_the_grant_and_nowhere_else(pool: Pool) -> None:
    request = TaskRequest(KINDS[0], secrets={"TOKEN": SECRET}, trust=(BOB,))
    task = await submit.submit(pool.services, pool.alice, request, "once")
    assert await pool.sql("SELECT count(*) FROM tasks WHERE tasks::text ~ $1", SECRET) == 0
    assert SECRET.encode() not in codec.encode_json(await pool.task(task.id))
    assert task.requirements.owners == tuple(sorted({Wallet("alice").address.lower(), BOB.lower()}))
    node = await pool.offer()
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    assert grant.secrets == {"TOKEN": SECRET}
    second_task = await submit.submit(pool.services, pool.alice, request, "once")
    assert second_task.id == task.id, "the same request, whatever it came to mean"


@pytest.mark.parametrize("end_kind", ["finished", "cancelled while it waits"])
async def test_secrets_go_with_the_end_of_the_task(pool: Pool, end_kind: str) -> None:
    has_secrets = "SELECT sealed_secrets IS NOT NULL FROM tasks"
    request = TaskRequest(KINDS[0], secrets={"TOKEN": SECRET}, trust=(BOB,), max_attempts=2)
    task = await submit.submit(pool.services, pool.alice, request, None)
    if end_kind == "finished":
        node = await pool.offer()
        await pool.plan()
        (first,) = await pool.fetch(node.node_id)
        await pool.report(
            node.node_id, Started(lease_of(first)), done(first, EndReason.EXIT_STATUS, exit_code=1)
        )
        assert await pool.sql(has_secrets), "the next attempt needs them"
        await pool.sql("UPDATE tasks SET not_before = NULL")
        await pool.plan()
        (second,) = await pool.fetch(node.node_id)
        assert second.secrets == {"TOKEN": SECRET}
        await pool.report(node.node_id, Started(lease_of(second)), done(second))
    else:
        await cancel.cancel(pool.services, pool.alice, task.id)
    assert (await pool.task(task.id)).state.is_final and not await pool.sql(has_secrets)


async def test_secrets_that_nobody_can_open_end_the_task(pool: Pool) -> None:
    request = TaskRequest(KINDS[0], secrets={"TOKEN": SECRET}, trust=(BOB,), max_attempts=3)
    task = await submit.submit(pool.services, pool.alice, request, None)
    await pool.sql("UPDATE tasks SET sealed_secrets = sealed_spec")
    node = await pool.offer()
    await pool.plan()
    assert await pool.fetch(node.node_id) == []
    after = await pool.task(task.id)
    assert (after.state, after.reason) == (TaskState.FAILED, EndReason.SPEC_UNREADABLE)


async def test_secrets_wait_for_a_node_that_may_have_them(pool: Pool) -> None:
    node = await pool.offer()
    request = TaskRequest(KINDS[0], secrets={"TOKEN": SECRET})
    task = await submit.submit(pool.services, pool.alice, request, None)
    await pool.plan()
    assert await pool.fetch(node.node_id) == []
    waiting = (await task_stream.view(pool.services, pool.alice, task.id)).waiting
    assert waiting is not None and waiting.code == "owner"
    assert not await place(pool, node, task.id), "whatever the leader plans"
    trusting_request = replace(request, trust=(BOB.upper().replace("X", "x"),))
    trusting = await submit.submit(pool.services, pool.alice, trusting_request, None)
    await pool.plan()
    assert [grant.task_id for grant in await pool.fetch(node.node_id)] == [trusting.id]


async def test_a_mistyped_wallet_is_trusted_with_nothing(pool: Pool) -> None:
    """An address spelled in both cases has a checksum; one in small letters has none."""
    mistyped = BOB[:2] + BOB[2:].swapcase()
    trusting = TaskRequest(KINDS[0], secrets={"TOKEN": SECRET}, trust=(mistyped,))
    asking_request = TaskRequest(KINDS[0], requirements=Requirements(owners=(mistyped,)))
    for request in (trusting, asking_request):
        with pytest.raises(InvalidInput, match=f"address {mistyped} has a wrong checksum"):
            await submit.submit(pool.services, pool.alice, request, None)
        outcomes = await submit_many(pool.services, pool.alice, [request], None)
        assert outcomes.tasks[0].task_id is None
    plain = replace(trusting, trust=(BOB.lower(),))
    assert (await submit.submit(pool.services, pool.alice, plain, None)).state is TaskState.QUEUED


async def test_a_node_is_given_what_it_can_run(pool: Pool) -> None:
    plain = SandboxReport(
        "bwrap", "watchdog", "watchdog", kinds=(TaskKind.SCRIPT, TaskKind.FUNCTION)
    )
    node = await pool.offer(devices=4, sandbox=plain, python_version="3.12.1")
    tasks = [
        await submit.submit(pool.services, pool.alice, TaskRequest(spec), None) for spec in KINDS
    ]
    await pool.plan()
    assert [grant.task_id for grant in await pool.fetch(node.node_id)] == [tasks[0].id]
    reasons = [
        (await task_stream.view(pool.services, pool.alice, task.id)).waiting for task in tasks[1:]
    ]
    assert [reason and reason.code for reason in reasons] == ["python", "kind", "kind"]
    await pool.offer(
        node.node_id,
        devices=4,
        sandbox=plain,
        containers=SandboxReport("docker", "watchdog", "watchdog"),
    )
    await pool.plan()
    grants = await pool.fetch(node.node_id)
    assert {grant.task_id for grant in grants} >= {tasks[1].id, tasks[3].id}


async def test_a_node_gets_tasks_for_pythons_that_it_fetches(pool: Pool) -> None:
    spec = ScriptSpec("a.py", "# /// script\n# requires-python = '>=3.13'\n# ///\n")
    task = await submit.submit(pool.services, pool.alice, TaskRequest(spec), None)
    node = await pool.offer(python_version="3.11.2")
    await pool.plan()
    waiting = (await task_stream.view(pool.services, pool.alice, task.id)).waiting
    assert waiting is not None and waiting.code == "python"
    await pool.offer(node.node_id, python_version="3.11.2", more_pythons=("3.13.1",))
    await pool.plan()
    assert [grant.task_id for grant in await pool.fetch(node.node_id)] == [task.id]


@pytest.mark.parametrize("missing", ["memory", "processes"])
async def test_a_sandbox_without_a_limit_serves_its_owner_only(pool: Pool, missing: str) -> None:
    """Whatever the node claims: it registers as one that takes every account's tasks."""
    limited = SandboxReport("docker", "cgroup v2", "cgroup v2")
    node = await pool.offer(devices=4, sandbox=replace(limited, **{missing: "none"}))
    strangers = await pool.submit()
    await pool.plan()
    assert await pool.fetch(node.node_id) == []
    waiting = (await task_stream.view(pool.services, pool.alice, strangers.id)).waiting
    assert waiting is not None and waiting.code == "own_tasks_only"
    memory = LeaderMemory(pool.services)
    await memory.begin()
    explanation = answer_about_node(memory, node.node_id)
    assert "limits memory and processes" in explanation.sentence, "its owner can see why"
    own_task = await submit.submit(pool.services, pool.bob, TaskRequest(KINDS[0]), None)
    await pool.plan()
    assert [grant.task_id for grant in await pool.fetch(node.node_id)] == [own_task.id]


async def test_an_engine_without_limits_runs_images_of_its_owner_only(pool: Pool) -> None:
    plain = SandboxReport("bwrap", "watchdog", "watchdog", kinds=(TaskKind.SCRIPT,))
    unlimited = SandboxReport("docker", cpu="cgroup v2")
    node = await pool.offer(devices=4, sandbox=plain, containers=unlimited)
    script, image = TaskRequest(KINDS[0]), TaskRequest(KINDS[3])
    foreign_task = await submit.submit(pool.services, pool.alice, script, None)
    strangers = await submit.submit(pool.services, pool.alice, image, None)
    own_task = await submit.submit(pool.services, pool.bob, image, None)
    await pool.plan()
    grants = await pool.fetch(node.node_id)
    assert {grant.task_id for grant in grants} == {foreign_task.id, own_task.id}
    waiting = (await task_stream.view(pool.services, pool.alice, strangers.id)).waiting
    assert waiting is not None and waiting.code == "own_tasks_only"


async def test_a_task_names_only_blobs_of_its_own_account(pool: Pool) -> None:
    spec = FunctionSpec("f", Value(blob=BlobRef("ab" * 32, 7)), Value(b""), "3.11")
    with pytest.raises(InvalidInput, match="has no blob abab"):
        await submit.submit(pool.services, pool.alice, TaskRequest(spec), None)
    assert await pool.sql("SELECT count(*) FROM tasks") == 0
