"""Writes histories: steps with arguments that fit what there is, and often do not.

An author looks at the model to know which tasks, attempts and nodes there are. What it then has
done is done to both sides alike. A verb is called whether or not its caller would call it now: a
late report, an old plan, an end of what has ended.
"""

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from msgspec import Struct

from potluck.decide import attempt_change
from potluck.decide.arrays.items import Accepted, ItemFailure, ranges_of
from potluck.decide.attempt_change import AttemptChange, LockedAttempt, TaskChange
from potluck.decide.charges import Entry, grant_entries, hold_entries
from potluck.decide.lease_grace import Grace
from potluck.decide.reservations.durations import Durations
from potluck.decide.types import Assignment, DeviceShare
from potluck.model.account import Role
from potluck.model.credit import EntryKind, Purse
from potluck.model.device import Availability
from potluck.model.ids import AccountId
from potluck.model.task import (
    GIB,
    EndReason,
    ItemRange,
    Limits,
    Requirements,
    TaskRequest,
    TaskState,
)
from potluck.model.task_spec import ScriptSpec
from potluck.model.terms import Order, TermsChange
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import adopt, lease
from potluck.server.flow.notify import notify
from potluck.server.flow.schedule import dependents
from potluck.server.flow.settle import cancel, settle
from potluck.server.flow.submit import submit
from potluck.simulate.store.data import BEGINNING, Data
from potluck.simulate.store.rows import Row
from potluck.store.attempts import (
    assign,
    attempts,
    changes,
    leases,
)
from potluck.store.database import Connection
from potluck.store.events import outbox
from potluck.store.identity import accounts
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.nodes import (
    availability,
    bindings,
    nodes,
    pending_requests,
)
from potluck.store.nodes.nodes import Owner
from potluck.store.scheduler import (
    invariant_snapshot,
    leader,
    recent_usage,
    scheduler_feed,
)
from potluck.store.scheduler.interning import Shapes
from potluck.store.scheduler.leader import Leadership
from potluck.store.tasks import dependencies, item_failures, tasks
from potluck.wire.device_status import DeviceStatus
from potluck.wire.owner_request import OwnerOrder, Wish
from potluck.wire.provider import AcquireLeases, RegisterNode
from tests.simulate.machines import description, wallet
from tests.simulate.sides import Act, Side

T = TypeVar("T")
NOBODY = "task_nobody"
LEADERS = ("one", "two")


class Step(Struct, frozen=True):
    """What is done, in words and in deed."""

    name: str
    act: Act
    seed: int  # its ids come from it
    # Whether its answer is that of one moment, also while others write.
    is_exact: bool = True


class Author:
    def __init__(self, seed: int, data: Data) -> None:
        self._random = random.Random(seed)
        self._data = data

    def beginning(self) -> list[Step]:
        """Somebody with credit, machines, and a leader."""
        people = [self.step("add_account", self._add_account(number)) for number in range(3)]
        lead = self.step("lead", _lead("one", 1_000.0))
        return [*people, lead]

    def opening(self) -> list[Step]:
        """Once there is somebody."""
        give = [self.step("grant", _grant(each, 10_000_000)) for each in self.people()]
        machines = [self.step("register", self._register(None, place)) for place in range(2)]
        work = [self.step("submit", self._submit()) for _ in range(4)]
        return [*give, *machines, *work]

    def next(self) -> Step:
        kinds = self._alone() if self._random.random() < 0.25 else self._together()
        return self._chosen(kinds)

    def next_among_others(self) -> Step:
        """One transaction, so that several at once should be as one after the other."""
        return self._chosen(self._together())

    def step(self, name: str, act: Act, *, is_exact: bool = True) -> Step:
        return Step(name, act, self._random.getrandbits(60), is_exact)

    def pause_seconds(self) -> float:
        return self._random.choice([0.0, 0.0, 0.0, 0.1, 0.1, 1.0, 1.0, 3.0, 12.0])

    def people(self) -> list[str]:
        return sorted(row["id"] for row in self._data.accounts.all())

    # What is chosen among.

    def _together(self) -> dict[str, tuple[float, Callable[[], Act]]]:
        return {
            "submit": (4, self._submit),
            "assign": (10, self._assign),
            "fetch": (3, self._fetch),
            "ask": (2, self._ask),
            "beat": (4, self._beat),
            "tell": (2, self._tell),
            "withdraw": (0.5, self._withdraw),
            "wish": (0.5, self._wish),
            "carry_out": (0.5, self._carry_out),
            "adopt": (3, self._adopt),
            "prepare": (1, self._prepare),
            "start": (3, self._start),
            "end": (4, self._end),
            "finish": (2, self._finish),
            "accept": (3, self._accept),
            "cancel": (1, self._cancel),
            "end_queued": (1, self._end_queued),
            "release": (2, self._release),
            "move_credit": (2, self._move_credit),
            "lead": (1.5, self._take_lead),
            "leave": (0.15, self._leave),
            "fall_silent": (0.2, lambda: _of(nodes.fall_silent, 8.0)),
        }

    def _alone(self) -> dict[str, tuple[float, Callable[[], Act]]]:
        """Several transactions, or reads of several statements."""
        return {
            "register": (1, lambda: self._register(self._node_id(), self._random.randint(0, 2))),
            "acquire": (1, self._acquire),
            "expire": (2, self._expire),
            "overtake": (2, self._overtake),
            "sicken": (1, self._sicken),
            "depend": (1, lambda: _depend(self._leadership())),
            "notify": (1, lambda: _notify),
            "feed": (3, self._feed),
            "look": (1, self._look),
            "forgive": (1, self._forgive),
            "move_on": (1, self._move_on),
            "fail": (0.5, self._fail),
            "view": (1, self._view),
            "picture": (1, lambda: _of(invariant_snapshot.take)),
            "resign": (0.15, lambda: _of(leader.resign, self._one(LEADERS))),
            "suspend": (0.1, lambda: _of(accounts.suspend, self._one(self.people()), "a test")),
            "resume": (0.6, lambda: _of(accounts.resume, self._one(self.people()))),
            "rehold": (0.5, lambda: _of(bindings.restand, self._uuids())),
            "outbox": (0.5, lambda: _outbox),
        }

    def _chosen(self, kinds: dict[str, tuple[float, Callable[[], Act]]]) -> Step:
        weights = [weight for weight, _ in kinds.values()]
        name = self._random.choices(list(kinds), weights)[0]
        return self.step(name, kinds[name][1](), is_exact=name not in _STALE)

    # Steps.

    def _add_account(self, number: int) -> Act:
        return _of(accounts.add, wallet(number), {Role.CONSUMER})

    def _register(self, node_id: str | None, machine: int) -> Act:
        contest = self._random.random() < 0.9
        offer = RegisterNode(description(self._random, machine), node_id, contest=contest)  # type: ignore[arg-type]
        owner = Owner(self._owner_of(node_id))
        return lambda side: lease.register(side.parts, owner, offer)

    def _submit(self) -> Act:
        account_id, request = AccountId(self._one(self.people())), self._request()
        key = self._one([None, None, None, "key-1", "key-2"])
        return lambda side: submit.submit(side.parts, account_id, request, key)

    def _assign(self) -> Act:
        leadership = self._leadership()
        planned = [self._planned() for _ in range(self._one([1, 1, 2]))]
        holds = self._random.random() < 0.9

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                done = await assign.assign(connection, planned, leadership, 5.0)
                held = [
                    Movement(
                        hold_entries(each.consumer_id, each.assignment.hold_micro), each.attempt_id
                    )
                    for each in done
                ]
                if holds:
                    await ledger.append_many(connection, held)
                return done

        return act

    def _planned(self) -> assign.Planned:
        """Mostly what would be planned now; often with one thing about it wrong."""
        task, node_id = self._waiting_task(), self._open_node_id()
        milli = self._one([1000, 1000, 500, 250])
        offered = self._data.devices.of("node", node_id)
        free = [row for row in offered if row["free_milli"] >= milli]
        devices = free if free and self._random.random() < 0.85 else offered
        chosen = self._random.sample(devices, k=min(len(devices), self._one([1, 1, 1, 2])))
        return self._plan(task, node_id, chosen, milli)

    def _plan(self, task: Row, node_id: str, chosen: list[Row], milli: int) -> assign.Planned:
        memory = self._one([0, 4 * GIB, 12 * GIB, 20 * GIB])  # more or less than its share
        price = sum(row["price_micro_per_hour"] * milli for row in chosen) // 1000
        wanted = Requirements(
            cores=self._one([1, 1, 1, 4, 8]), shares_device=self._random.random() < 0.5
        )
        return assign.Planned(
            f"attempt_{self._random.getrandbits(60):015x}",  # type: ignore[arg-type]
            Assignment(
                task_id=task["id"],
                node_id=node_id,  # type: ignore[arg-type]
                shares=tuple(DeviceShare(row["id"], milli, memory) for row in chosen),
                requirements=wanted,
                limits=Limits(run_seconds=10.0),
                price_micro_per_hour=price + (self._random.random() < 0.05),
                hold_micro=price // 360 * self._one([1] * 9 + [10**6]),
                items=self._range(task),
            ),
        )

    def _waiting_task(self) -> Row:
        now = self._data.now
        ready = [
            row
            for row in self._data.tasks.of("waiting", True)
            if row["waits_for"] == 0 and (row["not_before"] is None or row["not_before"] <= now)
        ]
        is_right = ready and self._random.random() < 0.85
        return self._one(sorted(ready, key=_by_id)) if is_right else self._task()

    def _open_node_id(self) -> str:
        online = [row["id"] for row in self._data.nodes.all() if row["state"] == "online"]
        is_right = online and self._random.random() < 0.9
        return self._one(sorted(online)) if is_right else self._node_id()

    def _range(self, task: Row) -> ItemRange | None:
        """Of an array, mostly what is pending."""
        if task.get("items") is None or self._random.random() < 0.05:
            return None
        if task["pending"] and self._random.random() < 0.85:
            start, end = self._one(task["pending"])
            return ItemRange(start, min(end, start + self._random.randint(1, 4)))
        start = self._random.randrange(task["items"])
        return ItemRange(start, min(task["items"], start + 2))

    def _fetch(self) -> Act:
        node_id, held = self._node_id(), self._held()
        owner, most = Owner(self._owner_of(node_id)), self._one([1, 100])

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                # What it has beside that may be a moment old.
                _, fetched = await attempts.fetch(
                    connection,
                    side.parts.vault,
                    node_id,  # type: ignore[arg-type]
                    owner,
                    held,
                    10.0,
                    most,
                )
                return fetched

        return act

    def _ask(self) -> Act:
        node_id = self._node_id()
        moment = self._one([0.0, 0.5])
        return _of(leases.ask, node_id, Owner(self._owner_of(node_id)), self._held(), moment)

    def _beat(self) -> Act:
        node_id = self._node_id()
        owner = Owner(self._owner_of(node_id))
        return _of(leases.beat, node_id, owner, self._held(), 10.0, 5.0)

    def _tell(self) -> Act:
        """Of its own devices, and of some that are not there."""
        node_id = self._node_id()
        statuses = [
            DeviceStatus(uuid, self._one([*Availability, *[Availability.AVAILABLE] * 6]), why)
            for uuid, why in zip(self._some_uuids(), ("", "", "hot"), strict=False)
        ]
        return _of(availability.tell, node_id, self._number(node_id), statuses)

    def _withdraw(self) -> Act:
        state = self._one([Availability.PAUSED, Availability.DRAINING])
        node_id, uuids = self._node_id(), self._some_uuids()

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                await availability.withdraw(connection, node_id, uuids, state, "for a test")  # type: ignore[arg-type]
                return await attempts.unfetched(connection, node_id)  # type: ignore[arg-type]

        return act

    def _wish(self) -> Act:
        order = self._one([None, OwnerOrder(Order.DRAIN), OwnerOrder(Order.RECLAIM)])
        wish = Wish(0, change=None if order else TermsChange(is_paused=True), order=order)
        node_id, also_left = self._node_id(), self._one([True, False])

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                owner_id = self._owner_of(node_id)
                name = await nodes.lock_own(connection, node_id, owner_id, also_left=also_left)  # type: ignore[arg-type]
                return name, await pending_requests.add(connection, node_id, wish)  # type: ignore[arg-type]

        return act

    def _carry_out(self) -> Act:
        node_id = self._node_id()
        number = self._number(node_id)

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                await pending_requests.carry_out(connection, node_id, number)  # type: ignore[arg-type]
                return await pending_requests.pending(connection, [node_id])  # type: ignore[list-item]

        return act

    def _number(self, node_id: str) -> int:
        """Of a wish of the node's: the last one, or one before it."""
        known: list[int] = [row["number"] for row in self._data.wishes.of("node", node_id)]
        return self._one([0, *sorted(known)])

    def _some_uuids(self) -> list[str]:
        known = self._uuids()
        return sorted(self._random.sample(known, k=min(len(known), 3)))

    def _adopt(self) -> Act:
        attempt = self._attempt(lambda row: row["reason"] == "lease_expired")
        node_id, is_over = attempt["node_id"], self._random.random() < 0.6

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                return await adopt.readopt(
                    side.parts, connection, attempt["id"], node_id, is_over=is_over
                )

        return act

    def _overtake(self) -> Act:
        """One is lost, another task of its account takes its place, and it wants to come back."""
        lost, leadership = self._attempt(), self._leadership()
        shares = self._data.attempt_devices.of("attempt", lost["id"])
        devices = [self._data.devices.get(share["device_id"]) for share in shares]
        chosen = [row for row in devices if row is not None]
        others = [
            row
            for row in self._data.tasks.of("waiting", True)
            if row["account_id"] == lost.get("consumer_id") and row["id"] != lost.get("task_id")
        ]
        task = self._one(sorted(others, key=_by_id)) if others else self._waiting_task()
        free_milli = min((row["free_milli"] for row in chosen), default=0)
        milli = min(1000, free_milli + self._one([0, 250, 500, 1000]))
        planned = self._plan(task, lost["node_id"], chosen, milli)

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                ending = await attempts.lock_for_end(connection, lost["id"])
                if ending is not None and ending.state.is_live:
                    await _settle(side, connection, ending, EndReason.LEASE_EXPIRED)
            async with side.database.transaction() as connection:
                done = await assign.assign(connection, [planned], leadership, 5.0)
            async with side.database.transaction() as connection:
                is_back = await adopt.readopt(
                    side.parts, connection, lost["id"], lost["node_id"], is_over=True
                )
            return done, is_back

        return act

    def _sicken(self) -> Act:
        """One is lost, its devices do not do well, and it wants to come back."""
        lost = self._attempt()
        node_id, wish = lost["node_id"], self._number(lost["node_id"])
        shares = self._data.attempt_devices.of("attempt", lost["id"])
        devices = [self._data.devices.get(share["device_id"]) for share in shares]
        sick = [DeviceStatus(row["uuid"], Availability.SICK) for row in devices if row is not None]

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                ending = await attempts.lock_for_end(connection, lost["id"])
                if ending is not None and ending.state.is_live:
                    await _settle(side, connection, ending, EndReason.LEASE_EXPIRED)
            async with side.database.transaction() as connection:
                await availability.tell(connection, node_id, wish, sick)
            async with side.database.transaction() as connection:
                return await adopt.readopt(
                    side.parts, connection, lost["id"], node_id, is_over=True
                )

        return act

    def _prepare(self) -> Act:
        attempt = self._attempt()
        return self._go_on(attempt, attempt["node_id"], attempt_change.prepare)

    def _start(self) -> Act:
        attempt, node_id = self._attempt(), self._one([None, self._node_id()])
        node_id = self._one([attempt["node_id"]] * 9 + [node_id or attempt["node_id"]])
        return self._go_on(attempt, node_id, attempt_change.start)

    def _go_on(
        self, attempt: Row, node_id: str, step: Callable[[AttemptChange], AttemptChange]
    ) -> Act:
        """As every report is: locked, decided, written."""

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                found = await attempts.lock_for_end(connection, attempt["id"])
                if found is None or found.node_id != node_id or not found.state.is_live:
                    return found
                await settle.write(side.parts, connection, [step(AttemptChange(found))])
                return found

        return act

    def _end(self) -> Act:
        """As every end is: locked, decided, settled, told."""
        attempt, reason = self._attempt(), self._one(_REASONS)

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                ending = await attempts.lock_for_end(connection, attempt["id"])
                if ending is None or not ending.state.is_live:
                    return ending
                await _settle(side, connection, ending, reason)
                return ending

        return act

    def _finish(self) -> Act:
        """The bare verb: what has ended must not end again."""
        ids = sorted({self._attempt()["id"] for _ in range(self._one([1, 2]))})
        reason, charge_micro = self._one(_REASONS), self._one([0, 0, 7])
        is_nodes_loss = self._random.random() < 0.5

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                ends = [
                    AttemptChange(
                        locked,
                        reason=reason,
                        charge_micro=charge_micro,
                        is_nodes_loss=is_nodes_loss,
                    )
                    for locked in await attempts.lock_many_for_end(connection, ids)
                ]
                await changes.write(connection, side.parts.vault, ends, ())
                return None

        return act

    def _accept(self) -> Act:
        attempt = self._attempt(lambda row: row["items"] is not None)
        left = [item for start, end in attempt.get("remaining", ()) for item in range(start, end)]
        done = sorted(self._random.sample(left, k=min(len(left), 2)))
        failed = [item for item in done if self._random.random() < 0.3]
        final = self._random.random() < 0.5
        accepted = Accepted(
            ranges_of(done),
            len(done) - len(failed),
            () if final else ranges_of(failed),
            tuple(ItemFailure(item, 1, final, EndReason.EXIT_STATUS, 1) for item in failed),
            0.5,
        )

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                found = await attempts.lock_for_end(connection, attempt["id"])
                if found is None or not found.state.is_live or found.held is None or not done:
                    return found
                await item_failures.failures(connection, found.task_id, done)
                await item_failures.fail(connection, found.task_id, found.id, accepted.failures)
                taken = attempt_change.accept(AttemptChange(found), accepted, [])
                await settle.write(side.parts, connection, [taken])
                return found

        return act

    def _fail(self) -> Act:
        attempt, task = self._attempt(), self._task()
        failed = [ItemFailure(self._one([0, 1, -1]), 1, True, EndReason.POISON)]
        return _of(item_failures.fail, task["id"], attempt["id"], failed)

    def _cancel(self) -> Act:
        task = self._task()
        owner = task.get("account_id", self.people()[0])
        return lambda side: cancel.cancel(side.parts, owner, task["id"])

    def _end_queued(self) -> Act:
        details = dict.fromkeys({self._task()["id"] for _ in range(2)}, "for a test")
        state = self._one([TaskState.CANCELLED, TaskState.EXPIRED])
        return _of(tasks.end_queued, details, state, EndReason.DEADLINE)

    def _release(self) -> Act:
        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                told = await dependencies.decided(connection, 2)
                if told:
                    await dependencies.release(connection, told)
                    await dependents.call_off(connection, told)
                return told

        return act

    def _move_credit(self) -> Act:
        """Balanced or not, affordable or not, and perhaps for the second time."""
        attempt = self._attempt()
        consumer = attempt.get("consumer_id", self.people()[0])
        amount = self._one([1, 1_000, 10**12])
        entries: Sequence[Entry] = hold_entries(consumer, amount)
        if self._random.random() < 0.2:
            entries = [Entry(consumer, EntryKind.HOLD, Purse.HELD, amount)]
        adoption = self._one([attempt.get("adoptions", 0), 0, 5])
        return _of(ledger.append_many, [Movement(entries, attempt["id"], adoption)])

    def _take_lead(self) -> Act:
        return _lead(self._one(LEADERS), self._one([5.0, 60.0, 300.0]))

    def _leave(self) -> Act:
        node_id = self._node_id()
        return _of(nodes.leave, node_id, Owner(self._owner_of(node_id)))

    def _acquire(self) -> Act:
        node_id = self._node_id()
        owner, asked = Owner(self._owner_of(node_id)), AcquireLeases(wait_seconds=0.0)
        return lambda side: lease.acquire(side.parts, owner, node_id, asked)  # type: ignore[arg-type]

    def _expire(self) -> Act:
        leadership = self._leadership()
        return lambda side: expire.expire_once(side.parts, leadership)

    def _look(self) -> Act:
        node_id = self._node_id()
        return _of(leases.look, node_id, Owner(self._owner_of(node_id)), self._held())

    def _forgive(self) -> Act:
        now = self._data.now
        lasting = timedelta(seconds=self._one([1, 30]))
        grace = Grace(now - timedelta(seconds=20), self._one([None, now]), now, lasting)
        return _of(leases.forgive, self._leadership(), grace)

    def _move_on(self) -> Act:
        attempt = self._attempt()
        state = self._one([TaskState.QUEUED, TaskState.FAILED, TaskState.SUCCEEDED])
        task = TaskChange(state, EndReason.SIGNAL, None, 3, "moved", 1, 1, 5)

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                found = await attempts.lock_many_for_end(connection, [attempt["id"]])
                moved = [AttemptChange(locked, task=task) for locked in found]
                await changes.write(connection, side.parts.vault, moved, ())
                return None

        return act

    def _view(self) -> Act:
        task = self._task()
        return _of(tasks.views, [task["id"], NOBODY], task.get("account_id", self.people()[0]))

    def _feed(self) -> Act:
        """What has changed since this side was last asked, by a position of its own."""
        ids = [row["id"] for row in self._data.tasks.all()]
        node_ids = [row["id"] for row in self._data.nodes.all()]

        async def act(side: Side) -> object:
            async with side.database.transaction() as connection:
                since = side.memory.get("position") or await scheduler_feed.position(connection)
                seen = side.memory.get("before") or since
                told = [
                    await _news(connection, since),
                    await _nodes(connection, node_ids),
                    await scheduler_feed.changed_nodes(connection, since),
                    await scheduler_feed.changed_accounts(connection, since),
                    await scheduler_feed.waiting_ids(connection, "", 1000, seen),
                    await scheduler_feed.not_waiting(connection, ids, seen),
                    await scheduler_feed.waiting_accounts(connection),
                    await scheduler_feed.paces(connection, ids),
                    await recent_usage.uses(connection, "attempt_1", "attempt_e", 5),
                    await recent_usage.long_uses(connection, BEGINNING, "attempt_e", 5),
                ]
                side.memory["before"], side.memory["position"] = (
                    since,
                    await scheduler_feed.position(connection),
                )
                return told

        return act

    # What they are about.

    def _one(self, choices: "Sequence[T]") -> T:
        return self._random.choice(choices)

    def _task(self) -> Row:
        rows = sorted(self._data.tasks.all(), key=lambda row: row["id"])
        return self._one(rows[-6:]) if rows else {"id": NOBODY}

    def _attempt(self, of: Callable[[Row], bool] = lambda row: True) -> Row:
        rows = sorted(self._data.attempts.all(), key=lambda row: row["id"])
        fit = [row for row in rows if of(row)] or rows
        live = [row for row in fit if row["finished_at"] is None]
        chosen = live if live and self._random.random() < 0.6 else fit
        return (
            self._one(chosen) if chosen else {"id": "attempt_nobody", "node_id": "", "items": None}
        )

    def _node_id(self) -> str:
        ids = sorted(row["id"] for row in self._data.nodes.all())
        return self._one(ids) if ids else "node_nobody"

    def _owner_of(self, node_id: str | None) -> Any:
        node = self._data.nodes.get(node_id)
        return node["account_id"] if node else self.people()[0]

    def _held(self) -> list[Any]:
        rows = sorted(self._data.attempts.all(), key=lambda row: row["id"])
        return [row["id"] for row in rows if self._random.random() < 0.5]

    def _uuids(self) -> list[str]:
        return sorted({row["uuid"] for row in self._data.devices.all()})

    def _leadership(self) -> Leadership:
        row = self._data.the_leader()
        term = row["term"] - (self._random.random() < 0.1)
        return Leadership(row["holder"], term)

    def _request(self) -> TaskRequest:
        items = self._one([None, None, 1, 6])
        known = sorted(row["id"] for row in self._data.tasks.all())
        after = self._random.sample(known[-4:], k=min(len(known), self._one([0, 0, 1, 1, 2])))
        return TaskRequest(
            spec=ScriptSpec("a.py", "pass"),
            requirements=Requirements(shares_device=self._random.random() < 0.5),
            limits=Limits(run_seconds=10.0, prepare_seconds=5.0),
            priority=self._one([0, 5]),
            max_attempts=self._one([1, 2]),
            start_within_seconds=self._one([None, None, 5.0]),
            delay_seconds=self._one([None, None, None, 0.5]),
            after=tuple(after),
            items=items,
            allow_failures=self._one([0, 1]) if items else 0,
            secrets=self._one([{}, {"TOKEN": "hunter2"}]),
        )


def _by_id(row: Row) -> str:
    return str(row["id"])


_REASONS = (
    *(EndReason.COMPLETED, EndReason.COMPLETED, EndReason.EXIT_STATUS, EndReason.LEASE_EXPIRED),
    *(EndReason.LEASE_EXPIRED, EndReason.NODE_LEFT, EndReason.SANDBOX_FAILED),
    *(EndReason.RECLAIMED, EndReason.DECLINED, EndReason.DEVICE_LOST),
)
# What these read beside what they change may be a moment old; whoever asks, asks again.
_STALE = {"beat", "submit", "cancel", "end", "release"}


def _of(verb: Callable[..., Any], *arguments: object) -> Act:
    """A verb in a transaction of its own."""

    async def act(side: Side) -> object:
        async with side.database.transaction() as connection:
            return await verb(connection, *arguments)

    return act


def _lead(holder: str, seconds: float) -> Act:
    return _of(leader.lead, holder, seconds)


def _grant(account_id: Any, amount_micro: int) -> Act:
    return _of(ledger.append, grant_entries(account_id, amount_micro))


def _depend(leadership: Leadership) -> Act:
    return lambda side: dependents.decide_once(side.parts, leadership)


async def _notify(side: Side) -> object:
    """Each side numbers its events by itself."""
    told = await notify.notify_once(side.parts, side.memory.get("told", 0))
    new, side.memory["told"] = told.count, told.place
    return new


async def _outbox(side: Side) -> object:
    """Some are placed and told, some placed only, and some not even that."""
    async with side.database.transaction() as connection:
        placed = await outbox.place(connection, 5, 0)
        rest = await outbox.place(connection, 5, placed[-1].place if placed else 0)
        untold = await outbox.untold(connection, 7)
        return [[each.event for each in some] for some in (placed, rest, untold)]


async def _nodes(connection: Any, node_ids: list[str]) -> object:
    found = await scheduler_feed.Nodes(Shapes(), Durations()).of_ids(connection, node_ids)  # type: ignore[arg-type]
    return [
        (each.node, sorted(each.attempts, key=lambda one: one.id), each.lists) for each in found
    ]


async def _news(connection: Any, since: scheduler_feed.Position) -> object:
    """In pages; a mark is a transaction's, of which each side has its own."""
    reader = scheduler_feed.Tasks(Shapes(), Durations())
    news = await reader.news(connection, since, 3)
    rest = await reader.changed(connection, since, news.behind, 1000) if news.behind else ([], None)
    told = sorted(news.node_ids), sorted(news.account_ids), news.has_decided
    return [*news.tasks, *rest[0]], told


async def _settle(
    side: Side, connection: Connection, attempt: LockedAttempt, reason: EndReason
) -> None:
    exit_code = 0 if reason is EndReason.COMPLETED else None
    wait = settle.next_wait(side.parts)
    ended = attempt_change.end(AttemptChange(attempt), reason, wait, exit_code=exit_code)
    await settle.write(side.parts, connection, [ended])
