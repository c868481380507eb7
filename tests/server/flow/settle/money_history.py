"""Random histories of a pool with prices: everything that moves credit, and crashes in between.

A step may crash at any of its transactions: before the commit, so that nothing of it is there, or
after it, so that nobody learns of it. After each step all invariants hold, and these:

- What was held for an attempt is what was paid, taken as a fee, returned, or is still held.
- Nobody pays more than the price that was agreed, for longer than the limit, or above the ceiling.
- Accepted work is paid in full.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.account import Role
from potluck.model.credit import RewardsTo
from potluck.model.error import PotluckError
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.task import EndReason
from potluck.server.accounts import administration, roles
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.settle.epochs import close_epoch
from potluck.server.flow.settle.payouts import mark_paid
from potluck.server.flow.settle.slices import resolve_lost, settle_slices
from potluck.server.services import Services
from potluck.store.database import Connection, Database
from potluck.store.identity import accounts
from potluck.store.ledger import epochs
from potluck.wire.admin import TakeCredit
from potluck.wire.money.rewards import PaidRow
from potluck.wire.provider import Grant, Heartbeat, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.schedule.arrays import succeeded
from tests.wallets import Wallet

SLICE, CHECKPOINT = 300.0, 60.0
# Beyond it the provider may be unpaid: decision 0067.
_LONGEST_OUTAGE = 1.9 * SLICE
# Credits an hour; some are not whole numbers of micro-credits a second.
PRICES = (0, 1_000_000, 360_000_000, 1_234_567, 99_999_999)
# What was held, and from the available credit; and where it went.
_BALANCED = """
SELECT attempts.id,
    attempts.finished_at IS NOT NULL AND attempts.held_back_micro = 0 AS is_settled,
    coalesce(sum(amount_micro) FILTER (WHERE kind = 'hold' AND purse = 'held'), 0)
        - coalesce(sum(amount_micro) FILTER (
            WHERE kind = 'charge' AND purse = 'available'), 0) AS held,
    coalesce(sum(amount_micro) FILTER (
        WHERE kind IN ('reward', 'release', 'fee') AND purse = 'available'), 0) AS paid,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'fees'), 0) AS fee,
    coalesce(sum(amount_micro) FILTER (
        WHERE kind IN ('refund', 'reversal') AND purse = 'available'), 0) AS returned,
    coalesce(sum(amount_micro) FILTER (WHERE purse IN ('held', 'held_back')), 0) AS still_held
FROM attempts LEFT JOIN ledger_entries ON attempt_id = attempts.id GROUP BY attempts.id
"""
_CEILING = """
SELECT attempts.*, tasks.requirements FROM attempts JOIN tasks ON tasks.id = task_id
WHERE price_micro_per_hour
        > coalesce((requirements ->> 'max_price_micro_per_hour')::bigint, price_micro_per_hour)
    OR attempts.charge_micro > price_micro_per_hour * run_seconds_limit / 3600
    OR attempts.charge_micro
        > price_micro_per_hour * coalesce(extract(epoch FROM
            coalesce(attempts.finished_at, now()) - attempts.started_at), 0) / 3600
"""
# A range of an array is paid by its items. A node that reports less than a checkpoint has secured
# keeps what it was paid. One that was asked to stop for lack of credit is paid for as long as the
# hold covers, and here more time may pass at once.
_UNPAID = """
SELECT * FROM attempts
WHERE state = 'succeeded' AND items IS NULL AND unfunded_at IS NULL
    AND charge_micro < floor(price_micro_per_hour
    * round(1e6 * least(run_seconds_limit, (usage ->> 'run_seconds')::double precision,
        extract(epoch FROM finished_at - started_at)))::numeric / 3600000000)
"""


class Crash(BaseException):
    """The process ends here: no code of the server handles it."""


class CrashingDatabase:
    """Ends the process at one transaction, before or after its commit."""

    def __init__(self, database: Database, transaction: int, is_committed: bool) -> None:
        self._database = database
        self._left = transaction
        self._is_committed = is_committed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        self._left -= 1
        crashes = self._left == -1
        async with self._database.transaction() as connection:
            yield connection
            if crashes and not self._is_committed:
                raise Crash
        if crashes:
            raise Crash


class Held(Struct, frozen=True):
    """What a node believes that it has."""

    node_id: NodeId
    grant: Grant
    is_started: bool = False


def shorten_slices(pool: Pool) -> None:
    settings = replace(pool.services.settings, settle_seconds=SLICE, checkpoint_seconds=CHECKPOINT)
    pool.services = replace(pool.services, settings=settings)


class MoneyHistory:
    def __init__(self, pool: Pool, seed: int) -> None:
        self.random = Random(seed)
        self.pool = pool
        self.trace: list[str] = []
        self.held: dict[AttemptId, Held] = {}
        self.owners: dict[NodeId, AccountId] = {}
        self.machines: dict[NodeId | None, str] = {}
        self.carol = AccountId("")
        self.tasks: dict[TaskId, AccountId] = {}
        self.keys = 0
        self.reliable = pool.services
        self.unsettled_seconds = 0.0
        self.crashes = 0

    @classmethod
    async def begin(cls, pool: Pool, seed: int) -> "MoneyHistory":
        shorten_slices(pool)
        history = cls(pool, seed)
        await history.prepare()
        return history

    async def prepare(self) -> None:
        """Two owners, credit, and work that was paid."""
        pool = self.pool
        async with pool.services.database.transaction() as connection:
            carol = await accounts.add(connection, Wallet("carol").address, {Role.PROVIDER})
        assert carol is not None
        self.carol = carol.id
        for owner in (pool.bob, carol.id):
            await self.offer(owner)
        await pool.give(pool.alice, 5_000_000_000)
        await self.pay_once()

    async def pay_once(self) -> None:
        """Work that is charged in slices, accepted, paid, and set aside: each history has some."""
        async with self.pool.services.database.transaction() as connection:
            for owner in set(self.owners.values()):
                await epochs.set_rewards_to(connection, owner, RewardsTo.PAYOUT)
        await self.pool.submit(run_seconds=8000.0)
        await self.end_epoch()
        for step in (self.assign, self.start, self.late_interval, self.late_interval):
            await step()
            await self.check()
        (held,) = self.held.values()
        await self._report_end(held, EndReason.COMPLETED)
        await self.check()
        await self.end_epoch()
        await self.check()
        paid = await self.pool.sql("SELECT sum(amount_micro) FROM epoch_rewards")
        assert paid > 0, "the history begins with a payment"

    def view(self, consumer: AccountId, provider: AccountId) -> Pool:
        pool = Pool(self.pool.services, consumer, provider, self.pool.leads)
        pool.machines = self.machines
        return pool

    def owner_view(self, node_id: NodeId) -> Pool:
        return self.view(self.pool.alice, self.owners[node_id])

    def steps(self) -> dict[str, tuple[int, Callable[[], Awaitable[None]]]]:
        """Each with its weight; a history of a pool with a chain adds to them."""
        return {
            "submit": (8, self.submit),
            "assign": (8, self.assign),
            "start": (8, self.start),
            "interval": (12, self.interval),
            "late interval": (1, self.late_interval),
            "checkpoint": (3, self.checkpoint),
            "beat": (3, self.beat),
            "lose": (2, self.lose),
            "resolve": (2, self.resolve),
            "finish": (6, self.finish),
            "cancel": (1, self.cancel),
            "price": (1, self.change_price),
            "fee": (1, self.change_fee),
            "grant": (2, self.grant),
            "revoke": (1, self.revoke),
            "choose": (2, self.choose_rewards),
            "epoch": (3, self.end_epoch),
            "mark paid": (3, self.mark_paid),
        }

    async def run(self, count: int) -> None:
        for _ in range(count):
            await self.step()
        await self.drain()

    async def step(self) -> None:
        steps = self.steps()
        (name,) = self.random.choices(list(steps), [weight for weight, _ in steps.values()])
        transaction = self.random.randrange(4) if self.random.random() < 0.3 else None
        services = self.pool.services
        if transaction is not None:
            is_committed = self.random.random() < 0.5
            name += f" that crashes at {transaction}, {'after' if is_committed else 'before'}"
            self.pool.services = _crashing(services, transaction, is_committed)
        self.trace.append(name)
        try:
            await steps[name.partition(" that")[0]][1]()
        except Crash:
            self.crashes += 1
        except PotluckError as error:
            self.trace[-1] += f": {error}"
        finally:
            fee = self.pool.services.settings.fee_basis_points
            settings = replace(services.settings, fee_basis_points=fee)
            self.pool.services = replace(services, settings=settings)
        await self.check()

    async def submit(self) -> None:
        consumer = self.random.choice((*3 * (self.pool.alice,), self.pool.bob))
        limits: dict[str, Any] = {"run_seconds": self.random.choice((120.0, 1000.0, 8000.0))}
        if self.random.random() < 0.15:
            limits["max_price_micro_per_hour"] = self.random.choice(PRICES)
        if self.random.random() < 0.2:
            limits["items"] = self.random.randint(1, 4)
        self.keys += 1
        key = f"submit {self.keys - self.random.randrange(2)}"  # some are sent again
        task = await self.view(consumer, self.pool.bob).submit(key, max_attempts=3, **limits)
        self.tasks[task.id] = consumer

    async def assign(self) -> None:
        await self.pool.sql("UPDATE tasks SET not_before = NULL WHERE not_before IS NOT NULL")
        await self.pool.plan()
        for node_id in list(self.owners):
            held = [each.grant for each in self.held.values() if each.node_id == node_id]
            leases = [lease_of(grant) for grant in held]
            for grant in await self.owner_view(node_id).fetch(node_id, *leases):
                self.held.setdefault(grant.attempt_id, Held(node_id, grant))

    async def start(self) -> None:
        for attempt_id, held in list(self.held.items()):
            if not held.is_started:
                view = self.owner_view(held.node_id)
                await view.report(held.node_id, Started(lease_of(held.grant)))
                self.held[attempt_id] = replace(held, is_started=True)

    async def interval(self) -> None:
        await self._let_pass(self.random.uniform(10, SLICE))
        await self._settle()

    async def late_interval(self) -> None:
        await self._let_pass(_LONGEST_OUTAGE)
        await self._settle()

    async def checkpoint(self) -> None:
        await self.pool.sql(
            "UPDATE attempts SET checkpoint_at = now() WHERE state = 'running' AND id = $1",
            self._any_held(),
        )

    async def beat(self) -> None:
        """A node whose attempt was lost may get it back; one without credit stops it."""
        for node_id in list(self.owners):
            held = {key: each for key, each in self.held.items() if each.node_id == node_id}
            leases = tuple(lease_of(each.grant) for each in held.values())
            view = self.owner_view(node_id)
            answer = await lease.heartbeat(
                self.pool.services, view.bobs, node_id, Heartbeat(leases)
            )
            for attempt_id in answer.stop:
                self.held.pop(attempt_id, None)
            for attempt_id in answer.unfunded:
                await self._report_end(self.held[attempt_id], EndReason.CREDIT)

    async def lose(self) -> None:
        await self.pool.sql(
            "UPDATE attempts SET lease_expires_at = now() - interval '1 second'"
            " WHERE finished_at IS NULL AND id = $1",
            self._any_held(),
        )
        await expire.expire_once(self.pool.services, self.pool.leads)

    async def resolve(self) -> None:
        await resolve_lost(self.pool.services, self.pool.leads)

    async def finish(self) -> None:
        started = [held for held in self.held.values() if held.is_started]
        if started:
            reasons = (EndReason.COMPLETED, EndReason.COMPLETED, EndReason.EXIT_STATUS)
            await self._report_end(self.random.choice(started), self.random.choice(reasons))

    async def cancel(self) -> None:
        if self.tasks:
            task_id, consumer = self.random.choice(list(self.tasks.items()))
            await cancel(self.pool.services, consumer, task_id)

    async def change_price(self) -> None:
        node_id = self.random.choice(list(self.owners))
        await self.offer(self.owners[node_id], node_id)

    async def change_fee(self) -> None:
        settings = replace(
            self.pool.services.settings, fee_basis_points=self.random.choice((0, 1, 250, 10_000))
        )
        self.pool.services = replace(self.pool.services, settings=settings)

    async def grant(self) -> None:
        amount = self.random.choice((1, 10_000_000, 2_000_000_000))
        account = self.random.choice((self.pool.alice, self.pool.bob))
        await roles.grant(self.pool.services, self.pool.alice, account, amount, None)

    async def revoke(self) -> None:
        taken = TakeCredit(self.random.choice((1, 1_000_000, 3_000_000_000)), "a test")
        account = self.random.choice((self.pool.alice, self.pool.bob, self.carol))
        await administration.take(self.pool.services, self.pool.alice, account, taken)

    async def choose_rewards(self) -> None:
        account = self.random.choice((self.pool.bob, self.carol))
        choice = self.random.choice((RewardsTo.CREDITS, RewardsTo.PAYOUT, RewardsTo.PAYOUT))
        async with self.pool.services.database.transaction() as connection:
            await epochs.set_rewards_to(connection, account, choice)

    async def end_epoch(self) -> None:
        await self.pool.sql(
            "UPDATE epochs SET starts_at = now() - interval '1 day', ends_at = now()"
            " WHERE closed_at IS NULL"
        )
        await close_epoch(self.pool.services, self.pool.leads)

    async def mark_paid(self) -> None:
        rows = [
            PaidRow(
                f"payout {self.random.randrange(12)}",
                Wallet(self.random.choice(("bob", "carol"))).address,
                self.random.choice((1, 5_000, 100_000)),
            )
            for _ in range(self.random.randint(1, 2))
        ]
        await mark_paid(self.pool.services, self.pool.alice, rows)

    async def offer(self, owner: AccountId, node_id: NodeId | None = None) -> None:
        view = self.view(self.pool.alice, owner)
        price = self.random.choice(PRICES if node_id else PRICES[1:])
        registered = await view.offer(node_id, devices=2, price_micro_per_hour=price)
        self.owners[registered.node_id] = owner

    async def drain(self) -> None:
        """Everything ends; nothing stays held for anybody."""
        async with self.pool.services.database.transaction() as connection:
            tasks = await connection.fetch(
                "SELECT id, account_id FROM tasks WHERE finished_at IS NULL"
            )
        for task in tasks:
            await cancel(self.pool.services, task["account_id"], task["id"])
        while await resolve_lost(self.pool.services, self.pool.leads):
            pass
        await self.end_epoch()
        await self.check()
        left = await self.pool.sql("SELECT sum(held_micro + held_back_micro) FROM balances")
        assert left == 0, "\n".join(self.trace)

    async def check(self) -> None:
        try:
            await self.pool.check()
            await self._check_money()
        except AssertionError as error:
            error.add_note("\n".join(self.trace))
            raise

    async def _check_money(self) -> None:
        async with self.pool.services.database.transaction() as connection:
            for row in await connection.fetch(_BALANCED):
                moved = row["paid"] + row["fee"] + row["returned"]
                assert row["held"] == moved + row["still_held"], dict(row)
                assert not row["is_settled"] or row["still_held"] == 0, dict(row)
            above = await connection.fetch(_CEILING)
            assert not above, f"paid above the agreed price: {[dict(row) for row in above]}"
            unpaid = await connection.fetch(_UNPAID)
            assert not unpaid, f"accepted and not paid: {[dict(row) for row in unpaid]}"

    async def _let_pass(self, seconds: float) -> None:
        """As if all that runs had begun earlier. No outage is longer than what holds cover."""
        if self.unsettled_seconds + seconds > _LONGEST_OUTAGE:
            await settle_slices(self.reliable, self.pool.leads)
            self.unsettled_seconds = 0.0
        self.unsettled_seconds += seconds
        await self.pool.sql(
            """UPDATE attempts SET started_at = started_at - how, fetched_at = fetched_at - how,
                next_slice_at = next_slice_at - how, checkpoint_at = checkpoint_at - how
            FROM make_interval(secs => $1) AS how WHERE finished_at IS NULL""",
            seconds,
        )

    async def _settle(self) -> None:
        await settle_slices(self.pool.services, self.pool.leads)
        self.unsettled_seconds = 0.0

    async def _report_end(self, held: Held, reason: EndReason) -> None:
        view, grant = self.owner_view(held.node_id), held.grant
        ran = await self.pool.sql(
            "SELECT extract(epoch FROM now() - started_at)::double precision FROM attempts"
            " WHERE id = $1",
            grant.attempt_id,
        )
        seconds = (ran or 0.0) * self.random.choice((0.5, 1.0, 2.0))
        items = [item for part in grant.items for item in range(part.start, part.end)]
        if items and reason is EndReason.COMPLETED:
            part = succeeded(grant, *items, seconds=seconds / len(items) / 2)
            await view.report(held.node_id, part)
        exit_code = {EndReason.COMPLETED: 0, EndReason.EXIT_STATUS: 1}.get(reason)
        ended = done(grant, reason, usage=used(seconds), exit_code=exit_code)
        await view.report(held.node_id, ended)
        self.held.pop(grant.attempt_id, None)

    def _any_held(self) -> str:
        return self.random.choice(list(self.held)) if self.held else ""


def _crashing(services: Services, transaction: int, is_committed: bool) -> Services:
    database: Any = CrashingDatabase(services.database, transaction, is_committed)
    return replace(services, database=database)
