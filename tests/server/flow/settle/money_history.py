"""Random histories of a pool with prices: everything that moves credit, and crashes in between.

A step may crash at any of its transactions: before the commit, so that nothing of it is there, or
after it, so that nobody learns of it. After each step all invariants hold, and these:

- What was held for an attempt is what was paid, taken as a fee, returned, or is still held.
- Nobody pays more than the price that was agreed, for longer than the limit, or above the ceiling.
- Each end costs exactly what its reason and times say. The one exception: if no slice was charged
  for longer than the hold covers, because the server was away or the node silent, and the consumer
  has no credit left, then the provider is not paid for the time beyond it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.failure_record import UNJUDGED_SECONDS
from potluck.model.account import Role
from potluck.model.credit import RewardsTo
from potluck.model.error import InvalidInput, NotFound, PotluckError
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.task import EndReason, Reporter
from potluck.server.accounts import administration, roles
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.settle.epochs import close_epoch
from potluck.server.flow.settle.payouts import mark_paid
from potluck.server.flow.settle.slices import judge_failures, resolve_lost, settle_slices
from potluck.server.flow.submit.retry import retry_task
from potluck.server.services import Services
from potluck.store.database import Connection, Database
from potluck.store.identity import accounts
from potluck.store.ledger import epochs
from potluck.wire.admin import TakeCredit
from potluck.wire.consumer import RetryTask
from potluck.wire.money.rewards import PaidRow
from potluck.wire.provider import Grant, Heartbeat, ItemOutcome, ItemsDone, Started
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.settle.money_checks import check_payments, check_sums
from tests.wallets import Wallet

SLICE, CHECKPOINT, POLL = 300.0, 60.0, 5.0
# Longer than the holds cover: then a provider may be unpaid if its consumer has no credit.
_LONGEST_OUTAGE = 4 * SLICE
# Credits an hour; some are not whole numbers of micro-credits a second.
PRICES = (0, 1_000_000, 360_000_000, 1_234_567, 99_999_999)
REPORTED = [reason for reason in EndReason if reason.facts.reporter is not Reporter.SERVER]
OF_ITEMS = [reason for reason in EndReason if reason.facts.reporter is Reporter.ITEM]
_EXIT_CODES = {EndReason.COMPLETED: 0, EndReason.EXIT_STATUS: 1}
# How long attempts ran that have a price, and for how long the credit in them is enough.
_RUNNING = """
SELECT id, extract(epoch FROM now() - started_at)::double precision
    - (charge_micro + hold_micro) * 3600.0 / price_micro_per_hour AS uncovered_seconds
FROM attempts WHERE state = 'running' AND price_micro_per_hour > 0
"""
_NEXT_SLICE = """
SELECT extract(epoch FROM min(next_slice_at) - now())::double precision FROM attempts
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
    open_items: tuple[int, ...] = ()


def shorten_slices(pool: Pool) -> None:
    settings = replace(
        pool.services.settings,
        settle_seconds=SLICE,
        checkpoint_seconds=CHECKPOINT,
        settle_poll_seconds=POLL,
    )
    pool.services = replace(pool.services, settings=settings)


class MoneyHistory:
    # How likely each step is; a history of a pool with a chain adds to them.
    weights: ClassVar[dict[str, float]] = {
        "submit": 10,
        "assign": 10,
        "start": 8,
        "interval": 12,
        "outage": 2,
        "write_log": 2,
        "report_items": 4,
        "checkpoint": 3,
        "beat": 3,
        "lose": 2,
        "resolve": 2,
        "finish": 6,
        "cancel": 1,
        "retry": 2,
        "leave": 0.5,
        "change_price": 1,
        "change_fee": 1,
        "grant": 4,
        "revoke": 1,
        "choose_rewards": 2,
        "end_epoch": 3,
        "mark_paid": 3,
    }

    def __init__(self, pool: Pool, seed: int) -> None:
        self.random = Random(seed)
        self.pool = pool
        self.trace: list[str] = []
        self.held: dict[AttemptId, Held] = {}
        self.owners: dict[NodeId, AccountId] = {}
        self.machines: dict[NodeId | None, str] = {}
        self.carol = AccountId("")
        self.dave = AccountId("")
        self.tasks: dict[TaskId, AccountId] = {}
        self.keys = 0
        self.uncovered_seconds: dict[str, float] = {}
        self.unpaid: set[str] = set()
        self.ends: Counter[str] = Counter()
        self.crashes: Counter[str] = Counter()

    @classmethod
    async def begin(cls, pool: Pool, seed: int) -> "MoneyHistory":
        shorten_slices(pool)
        history = cls(pool, seed)
        await history.prepare()
        return history

    async def prepare(self) -> None:
        """Two owners, a rich consumer and a poor one, and work that was paid."""
        pool = self.pool
        async with pool.services.database.transaction() as connection:
            carol = await accounts.add(connection, Wallet("carol").address, {Role.PROVIDER})
            dave = await accounts.add(connection, Wallet("dave").address, {Role.CONSUMER})
        assert carol is not None and dave is not None
        self.carol, self.dave = carol.id, dave.id
        for owner in (pool.bob, carol.id):
            await self.offer(owner)
        await pool.give(pool.alice, 5_000_000_000)
        await self.pay_once()

    async def pay_once(self) -> None:
        """Work that is charged in slices, accepted, paid, and set aside: each history has some."""
        async with self.pool.services.database.transaction() as connection:
            for owner in set(self.owners.values()):
                await epochs.set_rewards_to(connection, owner, RewardsTo.PAYOUT)
        await self._submit_long(self.pool.alice)
        await self.end_epoch()
        for step in (self.assign, self.start):
            await step()
            await self.check()
        for _ in range(4):
            await self._let_pass(SLICE)
            await self.check()
        (attempt,) = self.held.values()
        await self.report_end(attempt, EndReason.COMPLETED)
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

    async def fill(self) -> None:
        """There is something to do for every step."""
        await self.drain()
        await self.pool.give(self.dave, 30_000_000)
        await self._submit_long(self.pool.alice)
        await self._submit_long(self.dave)
        await self._submit_long(self.pool.alice, items=1)
        for step in (self.assign, self.start, self.interval, self.interval, self.beat):
            await step()
            await self.check()
        await self._submit_long(self.pool.alice)
        await self.assign()
        # The next slices are due.
        await self._move_clock(SLICE)
        await self._note_uncovered(is_new=True)

    async def _submit_long(self, consumer: AccountId, **changes: Any) -> None:
        self.keys += 1
        view = self.view(consumer, self.pool.bob)
        task = await view.submit(f"fill {self.keys}", run_seconds=8000.0, **changes)
        self.tasks[task.id] = consumer

    async def run(self, count: int) -> None:
        for _ in range(count):
            await self.step()
        await self.drain()

    async def step(self) -> None:
        (name,) = self.random.choices(list(self.weights), list(self.weights.values()))
        if self.random.random() < 0.3:
            await self.take_crashing(name, self.random.randrange(4), self.random.random() < 0.5)
        else:
            await self.take(name)

    async def take(self, name: str) -> None:
        self.trace.append(name)
        try:
            await getattr(self, name)()
        except PotluckError as error:
            self.trace[-1] += f": {error}"
        await self.check()

    async def take_crashing(self, name: str, transaction: int, is_committed: bool) -> bool:
        """Whether the step had so many transactions, and crashed at this one."""
        services = self.pool.services
        moment = "after" if is_committed else "before"
        self.trace.append(f"{name} that crashes at {transaction}, {moment}")
        self.pool.services = _crashing(services, transaction, is_committed)
        has_crashed = False
        try:
            await getattr(self, name)()
        except Crash:
            has_crashed = True
            self.crashes[self.trace[-1]] += 1
        except PotluckError as error:
            self.trace[-1] += f": {error}"
        finally:
            fee = self.pool.services.settings.fee_basis_points
            settings = replace(services.settings, fee_basis_points=fee)
            self.pool.services = replace(services, settings=settings)
        await self.check()
        return has_crashed

    async def submit(self) -> None:
        consumer = self.random.choice((*2 * (self.pool.alice,), self.pool.bob, *2 * (self.dave,)))
        limits: dict[str, Any] = {"run_seconds": self.random.choice((120.0, 1000.0, 8000.0))}
        if self.random.random() < 0.15:
            limits["max_price_micro_per_hour"] = self.random.choice(PRICES)
        if self.random.random() < 0.3:
            limits["items"] = self.random.randint(1, 6)
        if self.random.random() < 0.2:
            limits["stop_after_silence_seconds"] = 60.0
        self.keys += 1
        key = f"submit {self.keys - self.random.randrange(2)}"  # some are sent again
        task = await self.view(consumer, self.pool.bob).submit(key, max_attempts=3, **limits)
        self.tasks[task.id] = consumer

    async def assign(self) -> None:
        await self.pool.sql("UPDATE tasks SET not_before = NULL WHERE not_before IS NOT NULL")
        await self.pool.plan()
        for node_id, owner in list(self.owners.items()):
            held_grants = [
                attempt.grant for attempt in self.held.values() if attempt.node_id == node_id
            ]
            leases = [lease_of(grant) for grant in held_grants]
            try:
                grants = await self.owner_view(node_id).fetch(node_id, *leases)
            except NotFound:  # it left, and crashed before it came again
                await self.offer(owner, node_id)
                continue
            for grant in grants:
                items = tuple(item for part in grant.items for item in range(part.start, part.end))
                held_now = Held(node_id, grant, open_items=items)
                self.held.setdefault(grant.attempt_id, held_now)

    async def start(self) -> None:
        for attempt_id, attempt in list(self.held.items()):
            if not attempt.is_started:
                view = self.owner_view(attempt.node_id)
                await view.report(attempt.node_id, Started(lease_of(attempt.grant)))
                self.held[attempt_id] = replace(attempt, is_started=True)

    async def interval(self) -> None:
        await self._let_pass(self.random.uniform(10, 1.5 * SLICE))

    async def outage(self) -> None:
        """No slice is charged meanwhile; then all that are due, in one go."""
        await self._move_clock(self.random.uniform(SLICE, _LONGEST_OUTAGE))
        await self._note_uncovered(is_new=True)
        await settle_slices(self.pool.services, self.pool.leads)

    async def write_log(self) -> None:
        """A failure with output is charged."""
        for attempt in list(self.held.values())[:1]:
            offset = await self.pool.sql(
                "SELECT log_pieces FROM attempts WHERE id = $1", attempt.grant.attempt_id
            )
            view = self.owner_view(attempt.node_id)
            await view.say(attempt.node_id, lease_of(attempt.grant), offset, "a line")

    async def report_items(self) -> None:
        ranges = [
            attempt for attempt in self.held.values() if attempt.is_started and attempt.open_items
        ]
        if ranges:
            attempt = self.random.choice(ranges)
            count = self.random.randint(1, len(attempt.open_items))
            await self._report_items(attempt, self.random.sample(attempt.open_items, count))

    async def checkpoint(self) -> None:
        await self.pool.sql(
            "UPDATE attempts SET checkpoint_at = now() WHERE state = 'running' AND id = $1",
            self._any_held(),
        )

    async def beat(self) -> None:
        """A node whose attempt was lost may get it back; one without credit stops it."""
        for node_id in list(self.owners):
            attempts = {
                key: attempt for key, attempt in self.held.items() if attempt.node_id == node_id
            }
            leases = tuple(lease_of(attempt.grant) for attempt in attempts.values())
            view = self.owner_view(node_id)
            response = await lease.heartbeat(
                self.pool.services, view.bobs, node_id, Heartbeat(leases)
            )
            for attempt_id in response.stop:
                self.held.pop(attempt_id, None)
            for attempt_id in response.unfunded:
                await self.report_end(self.held[attempt_id], EndReason.CREDIT)
        # A node that was silent for long has worked without a hold.
        await self._note_uncovered(is_new=True)

    async def lose(self) -> None:
        await self.pool.sql(
            "UPDATE attempts SET lease_expires_at = now() - interval '1 second'"
            " WHERE finished_at IS NULL AND id = $1",
            self._any_held(),
        )
        await expire.expire_once(self.pool.services, self.pool.leads)

    async def resolve(self) -> None:
        await resolve_lost(self.pool.services, self.pool.leads)
        await judge_failures(self.pool.services, self.pool.leads)

    async def finish(self) -> None:
        """With any reason that a node may report, plausible or not; half of them with success."""
        if self.held:
            reason = self.random.choice((*len(REPORTED) * (EndReason.COMPLETED,), *REPORTED))
            attempt = self.random.choice(list(self.held.values()))
            if reason is EndReason.COMPLETED and attempt.is_started and attempt.open_items:
                await self._report_items(attempt, attempt.open_items, (EndReason.COMPLETED,))
                attempt = self.held[attempt.grant.attempt_id]
            await self.report_end(attempt, reason)

    async def retry(self) -> None:
        finished_ids = await self.pool.sql(
            "SELECT array_agg(id) FROM tasks WHERE finished_at < now()"
        )
        finished_tasks = [task_id for task_id in self.tasks if task_id in finished_ids]
        if finished_tasks:
            task_id = self.random.choice(finished_tasks)
            consumer = self.tasks[task_id]
            self.keys += 1
            retried = await retry_task(
                self.pool.services, consumer, task_id, RetryTask(), f"retry {self.keys}"
            )
            self.tasks[retried.id] = consumer

    async def leave(self) -> None:
        """A node gives everything back, and comes again."""
        node_id = self.random.choice(list(self.owners))
        view = self.owner_view(node_id)
        await lease.leave(self.pool.services, view.bobs, node_id)
        self.held = {
            key: attempt for key, attempt in self.held.items() if attempt.node_id != node_id
        }
        await self.offer(self.owners[node_id], node_id)

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
        """Dave gets enough for some minutes."""
        account = self.random.choice((self.pool.alice, self.pool.bob, *3 * (self.dave,)))
        maximum = 30_000_000 if account == self.dave else 2_000_000_000
        amount = self.random.choice((1, 10_000_000, maximum))
        await roles.grant(self.pool.services, self.pool.alice, account, amount, None)

    async def revoke(self) -> None:
        request = TakeCredit(self.random.choice((1, 1_000_000, 3_000_000_000)), "a test")
        account = self.random.choice((self.pool.alice, self.pool.bob, self.carol, self.dave))
        await administration.take(self.pool.services, self.pool.alice, account, request)

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
        offered = await view.offer(node_id, devices=2, price_micro_per_hour=price)
        self.owners[offered.node_id] = owner

    async def drain(self) -> None:
        """Everything ends; nothing stays held for anybody."""
        async with self.pool.services.database.transaction() as connection:
            tasks = await connection.fetch(
                "SELECT id, account_id FROM tasks WHERE finished_at IS NULL"
            )
        for task in tasks:
            await cancel(self.pool.services, task["account_id"], task["id"])
            await self.check()  # the next one may return credit
        while await resolve_lost(self.pool.services, self.pool.leads):
            pass
        await self._move_clock(UNJUDGED_SECONDS)
        while await judge_failures(self.pool.services, self.pool.leads):
            pass
        await self.end_epoch()
        await self.check()
        remaining = await self.pool.sql("SELECT sum(held_micro + held_back_micro) FROM balances")
        assert remaining == 0, "\n".join(self.trace)

    async def check(self) -> None:
        try:
            await self.pool.check()
            await self._check_money()
        except AssertionError as error:
            error.add_note("\n".join(self.trace))
            raise

    async def _check_money(self) -> None:
        async with self.pool.services.database.transaction() as connection:
            await check_sums(connection)
            unpaid = await check_payments(connection, self.uncovered_seconds)
            unpaid_attempts = await connection.fetch(
                "SELECT attempts.id, available_micro FROM attempts"
                " JOIN balances ON account_id = consumer_id"
                " WHERE attempts.id = ANY($1) AND available_micro > 0",
                list(unpaid - self.unpaid),
            )
        assert not unpaid_attempts, (
            f"credit was left, and work is not paid: {[dict(row) for row in unpaid_attempts]}"
        )
        self.unpaid = unpaid

    async def _let_pass(self, seconds: float) -> None:
        """Slices are charged as they come, each as late as the leader may look."""
        while seconds > 0:
            next_slice = await self.pool.sql(_NEXT_SLICE)
            due = seconds if next_slice is None else next_slice + self.random.uniform(0, POLL)
            passed = min(seconds, max(0.0, due))
            await self._move_clock(passed)
            await self._note_uncovered(is_new=False)
            seconds -= passed
            if passed >= due:
                await settle_slices(self.pool.services, self.pool.leads)

    async def _move_clock(self, seconds: float) -> None:
        """As if all that happened had happened earlier."""
        await self.pool.sql(
            """UPDATE attempts SET started_at = started_at - how, fetched_at = fetched_at - how,
                finished_at = finished_at - how, heard_since = heard_since - how,
                next_slice_at = next_slice_at - how, checkpoint_at = checkpoint_at - how
            FROM make_interval(secs => $1) AS how""",
            seconds,
        )

    async def _note_uncovered(self, *, is_new: bool) -> None:
        """For how long attempts ran without credit in them.

        They may begin to only in an outage or a silence; the time for a checkpoint follows.
        """
        async with self.pool.services.database.transaction() as connection:
            for row in await connection.fetch(_RUNNING):
                if row["uncovered_seconds"] > 0 and (is_new or row["id"] in self.uncovered_seconds):
                    # A second for what the test itself takes until the end.
                    self.uncovered_seconds[row["id"]] = row["uncovered_seconds"] + 1

    async def _report_items(
        self,
        attempt: Held,
        items: Sequence[int],
        reasons: Sequence[EndReason] = (*OF_ITEMS, *len(OF_ITEMS) * (EndReason.COMPLETED,)),
    ) -> None:
        seconds = await self._ran_seconds(attempt) / 2 / max(1, len(attempt.open_items))
        outcomes = tuple(
            ItemOutcome(item, reason, seconds, _EXIT_CODES.get(reason))
            for item in items
            for reason in (self.random.choice(reasons),)
        )
        report = ItemsDone(lease_of(attempt.grant), outcomes)
        await self.owner_view(attempt.node_id).report(attempt.node_id, report)
        open_items = tuple(item for item in attempt.open_items if item not in items)
        self.held[attempt.grant.attempt_id] = replace(attempt, open_items=open_items)

    async def report_end(self, attempt: Held, reason: EndReason) -> None:
        view, grant = self.owner_view(attempt.node_id), attempt.grant
        seconds = await self._ran_seconds(attempt) * self.random.choice((0.5, 1.0, 2.0))
        finish = done(grant, reason, usage=used(seconds), exit_code=_EXIT_CODES.get(reason))
        (code,) = await view.report(attempt.node_id, finish)
        self.trace[-1:] = [f"{self.trace[-1]} ({reason}: {code})" if self.trace else reason]
        self.ends[f"{reason} {code}"] += 1
        if code != InvalidInput.code:
            self.held.pop(grant.attempt_id, None)

    async def _ran_seconds(self, attempt: Held) -> float:
        seconds = await self.pool.sql(
            "SELECT extract(epoch FROM now() - started_at)::double precision FROM attempts"
            " WHERE id = $1",
            attempt.grant.attempt_id,
        )
        return seconds or 0.0

    def _any_held(self) -> str:
        return self.random.choice(list(self.held)) if self.held else ""


def _crashing(services: Services, transaction: int, is_committed: bool) -> Services:
    database: Any = CrashingDatabase(services.database, transaction, is_committed)
    return replace(services, database=database)
