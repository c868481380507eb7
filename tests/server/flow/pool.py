"""A small pool in domain words: accounts, nodes, and the steps that a real one would take."""

import secrets
from typing import Any

from msgspec.structs import replace

from potluck.decide.attempt_change import AttemptChange, end
from potluck.decide.charges import grant_entries
from potluck.decide.invariants import check_invariants
from potluck.model.account import Role
from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.lease import Lease
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.task import GIB, EndReason, Limits, Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.model.terms import DeviceTerms, TaskKind
from potluck.model.usage import Usage
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.lease import lease
from potluck.server.flow.notify import task_stream
from potluck.server.flow.report import report
from potluck.server.flow.schedule import schedule
from potluck.server.flow.schedule.schedule import Round
from potluck.server.flow.settle import settle
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.waiting_reasons import WaitingReasons
from potluck.server.services import Services
from potluck.store.attempts import attempts
from potluck.store.identity import accounts
from potluck.store.identity.accounts import AccountBalance
from potluck.store.ledger import ledger
from potluck.store.nodes.nodes import Owner
from potluck.store.scheduler import invariant_snapshot, leader
from potluck.store.scheduler.leader import Leadership
from potluck.store.tasks import tasks
from potluck.wire.consumer import TaskView
from potluck.wire.provider import (
    AcquireLeases,
    Finished,
    Grant,
    Heartbeat,
    LogChunk,
    NodeRegistered,
    PackedLogPiece,
    RegisterNode,
    Report,
    Reports,
    Started,
)
from tests.wallets import Wallet


def request(**changes: Any) -> TaskRequest:
    requirements = {k: changes.pop(k) for k in list(changes) if k in Requirements.__struct_fields__}
    limits = {k: changes.pop(k) for k in list(changes) if k in Limits.__struct_fields__}
    return TaskRequest(
        spec=ScriptSpec("hello.py", "print('hello')"),
        requirements=Requirements(**requirements),
        limits=Limits(**limits),
        **changes,
    )


def description(
    devices: int | tuple[DeviceDescription, ...] = 1,
    price_micro_per_hour: int = 0,
    machine: str = "GPU",
    **changes: Any,
) -> NodeDescription:
    """Cards are named by their machine and place: two nodes of one wallet do not share one."""
    if isinstance(devices, int):
        cards = [f"{machine}-{place}" for place in range(devices)]
        devices = tuple(_card(uuid, price_micro_per_hour) for uuid in cards)
    offered = NodeDescription(
        name="attic",
        platform="linux",
        python_version="3.11",
        potluck_version="0.1.0",
        cores=8,
        memory_bytes=16 * GIB,
        disk_bytes=16 * GIB,
        sandbox=SandboxReport("bwrap", "watchdog", "watchdog", kinds=tuple(TaskKind)),
        devices=devices,
    )
    return replace(offered, **changes)


def _card(uuid: str, price_micro_per_hour: int) -> DeviceDescription:
    return DeviceDescription(
        kind=DeviceKind.GPU,
        uuid=uuid,
        vendor="NVIDIA",
        model="RTX 4090",
        memory_bytes=24 * GIB,
        terms=DeviceTerms(price_micro_per_hour=price_micro_per_hour),
    )


class Pool:
    """Alice has work, Bob has a machine, and this instance leads."""

    def __init__(
        self, services: Services, alice: AccountId, bob: AccountId, leadership: Leadership
    ) -> None:
        self.services = services
        self.alice = alice
        self.bob = bob
        self.bobs = Owner(bob)
        self.leads = leadership
        self.machines: dict[NodeId | None, str] = {}

    @classmethod
    async def open(cls, services: Services) -> "Pool":
        async with services.database.transaction() as connection:
            alice = await accounts.add(connection, Wallet("alice").address, {Role.CONSUMER})
            bob = await accounts.add(connection, Wallet("bob").address, {Role.PROVIDER})
            leadership = await leader.acquire_or_renew(connection, "me", 3600)
        assert leadership is not None and alice is not None and bob is not None
        return cls(services, alice.id, bob.id, leadership)

    async def give(self, account_id: AccountId, amount_micro: int) -> None:
        async with self.services.database.transaction() as connection:
            await ledger.append(connection, grant_entries(account_id, amount_micro))

    async def balance(self, account_id: AccountId) -> AccountBalance:
        async with self.services.database.transaction() as connection:
            account_balance = await accounts.balance(connection, account_id)
        assert account_balance is not None
        return account_balance

    async def offer(self, node_id: NodeId | None = None, **changes: Any) -> NodeRegistered:
        machine = self.machines.get(node_id, f"GPU-{secrets.token_hex(4)}")
        offer = RegisterNode(description(machine=machine, **changes), node_id)
        registration = await lease.register(self.services, self.bobs, offer)
        self.machines[registration.node_id] = machine
        return registration

    async def submit(self, key: str | None = None, **changes: Any) -> TaskView:
        return await submit.submit(self.services, self.alice, request(**changes), key)

    async def plan(self) -> Round:
        """All that a new leader would place."""
        memory = LeaderMemory(self.services)
        await memory.begin()
        reasons = WaitingReasons(self.services, memory.known.scheduler)
        slices: list[Round] = []
        while not slices or not slices[-1].is_complete:
            slices.append(await schedule.schedule_once(self.services, self.leads, memory))
            await reasons.publish(slices[-1].waiting, slices[-1].emptied)
        waiting = {
            key: waiting_task for slice_ in slices for key, waiting_task in slice_.waiting.items()
        }
        return Round(
            tuple(assignment for slice_ in slices for assignment in slice_.assigned),
            waiting,
            (),
            True,
            True,
        )

    async def fetch(self, node_id: NodeId, *held_leases: Lease) -> list[Grant]:
        poll_request = AcquireLeases(held_leases, wait_seconds=0)
        return (await lease.acquire(self.services, self.bobs, node_id, poll_request)).grants

    async def beat(self, node_id: NodeId, *held_leases: Lease) -> list[str]:
        """What to stop."""
        heartbeat = Heartbeat(held_leases)
        return list((await lease.heartbeat(self.services, self.bobs, node_id, heartbeat)).stop)

    async def report(self, node_id: NodeId, *reports: Report) -> list[str]:
        response = await report.report(self.services, self.bobs, node_id, Reports(reports))
        return [answer.code for answer in response.answers]

    async def say(self, node_id: NodeId, held_lease: Lease, offset: int, *texts: str) -> int:
        pieces = tuple(PackedLogPiece("stdout", text.encode()) for text in texts)
        chunk = LogChunk(held_lease, offset, pieces)
        return (await attempt_log.append_log(self.services, self.bobs, node_id, chunk)).next_offset

    async def task(self, task_id: TaskId) -> TaskView:
        async with self.services.database.transaction() as connection:
            return task_stream.add_pause_reason(
                await tasks.get(connection, self.services.vault, task_id, self.alice)
            )

    async def started(self, **changes: Any) -> tuple[NodeId, Grant]:
        """One node and one task that runs on it."""
        node = await self.offer(price_micro_per_hour=changes.pop("price_micro_per_hour", 0))
        await self.submit(**changes)
        await self.plan()
        (grant,) = await self.fetch(node.node_id)
        assert await self.report(node.node_id, Started(lease_of(grant))) == ["accepted"]
        return node.node_id, grant

    async def finish(self, grant: Grant) -> None:
        """The end alone, without the sign of life that a report is."""
        async with self.services.database.transaction() as connection:
            attempt = await attempts.lock_for_end(connection, grant.attempt_id)
            assert attempt is not None
            wait = settle.retry_wait(self.services)
            change = end(AttemptChange(attempt), EndReason.COMPLETED, wait, exit_code=0)
            await settle.write_changes(self.services, connection, [change])

    async def check(self) -> None:
        """Everything that must always be true is true."""
        async with self.services.database.transaction() as connection:
            violations = check_invariants(await invariant_snapshot.read_all(connection))
            assert not violations, violations

    async def sql(self, statement: str, *values: Any) -> Any:
        async with self.services.database.transaction() as connection:
            return await connection.fetchval(statement, *values)


def lease_of(grant: Grant) -> Lease:
    return Lease(grant.attempt_id, grant.token)


def done(grant: Grant, reason: EndReason = EndReason.COMPLETED, **changes: Any) -> Finished:
    exit_code = 0 if reason is EndReason.COMPLETED else None
    return Finished(lease_of(grant), reason, **{"exit_code": exit_code, **changes})


def used(run_seconds: float) -> Usage:
    return Usage(run_seconds=run_seconds)
