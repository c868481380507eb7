"""Functions as consumers send them, and one who runs them here without a server."""

import pickle
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import cloudpickle
from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.ids import AccountId
from potluck.model.task import MIB, ItemRange, Limits, Requirements
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.item_feed import ItemFeed
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.attempt.log_limit import limited_log
from potluck.provider.attempt.mask import Mask, MaskedLog
from potluck.provider.attempt.runner import run_function
from potluck.provider.attempt.unsent_results import UnsentResults
from potluck.provider.dependencies.outcome import SYSTEM_PYTHON
from potluck.provider.event import Event, ItemsEnded
from potluck.provider.expose.exposed import Exposed
from potluck.provider.files.blob_transfer import AttemptTransfers
from potluck.provider.files.outbox import Outbox, OutputRole
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.functions.confinement import confine_function
from potluck.provider.functions.interpreter import WarmKey, make_warm_key
from potluck.provider.functions.interpreter_pool import HeldFiles, WarmPool, WarmSettings
from potluck.provider.sandbox.driver import Driver, RunOutcome, StopRequest
from potluck.wire import item_file
from potluck.wire.plain_values import decode
from potluck.wire.provider import Grant
from tests.provider.builders import ACCOUNT, a_grant, idle_freight

LIMITS = Limits(run_seconds=20, processes=16, log_bytes=65_536)
WANTED = Requirements(memory_bytes=128 * MIB, disk_bytes=8 * MIB)


def call_of(
    function: Callable[..., Any],
    *arguments: object,
    account_id: AccountId = ACCOUNT,
    limits: Limits = LIMITS,
    device: str = "cpu-1",
    **spec: Any,
) -> Grant:
    """One call of it."""
    grant = a_grant(account_id=account_id, limits=limits, device=device)
    return replace(
        grant,
        requirements=WANTED,
        spec=FunctionSpec(
            name="f",
            code=Value(cloudpickle.dumps(function)),
            inputs=Value(pickle.dumps(arguments)),
            python="3.11",
            **spec,
        ),
    )


def items_of(
    function: Callable[..., Any],
    inputs: Sequence[object],
    *ranges: tuple[int, int],
    limits: Limits = LIMITS,
) -> Grant:
    """An array of calls, of which these ranges are to be done here, or all."""
    grant = call_of(function, limits=limits)
    values = Value(item_file.pack([pickle.dumps((value,)) for value in inputs]))
    assert isinstance(grant.spec, FunctionSpec)
    return replace(
        grant,
        spec=replace(grant.spec, inputs=values),
        items_total=len(inputs),
        items=[ItemRange(*bounds) for bounds in ranges or ((0, len(inputs)),)],
    )


def key(grant: Grant) -> WarmKey:
    assert isinstance(grant.spec, FunctionSpec)
    parts = (SYSTEM_PYTHON, Exposed(), InputFiles(), cast(MaskedLog, None), print, StopRequest())
    job = PreparedAttempt(grant, *parts, cast(AttemptTransfers, None))
    return make_warm_key(job, grant.spec, confine_function(job))


class Ran:
    """What came of it."""

    def __init__(
        self, outcome: RunOutcome, events: list[Event], text: str, files: list[str]
    ) -> None:
        self.ended = outcome
        self.text = text
        self.files = files
        item_events = [event for event in events if isinstance(event, ItemsEnded)]
        self.reports = len(item_events)
        self.returned = {
            run_of_items.start + index: decode(value)
            for event in item_events
            for run_of_items in event.returned
            for index, value in enumerate(
                item_file.unpack(run_of_items.values.data, run_of_items.end - run_of_items.start)
            )
        }
        self.failed = {outcome.item: outcome for event in item_events for outcome in event.outcomes}

    @property
    def value(self) -> Any:
        assert self.ended.value is not None, self.ended
        return decode(self.ended.value.data)


@asynccontextmanager
async def open_shop(driver: Driver, directory: Path) -> AsyncIterator["Shop"]:
    """Closed afterwards; nothing is held by then."""
    shop = Shop(driver, directory)
    yield shop
    await shop.pool.close()
    assert shop.held == []


class Shop:
    """A pool, and jobs for it one after the other."""

    def __init__(self, driver: Driver, directory: Path, settings: WarmSettings | None = None):
        self._directory = directory
        self.held: list[str] = []
        pins = HeldFiles(lambda _, name: self.held.append(name), self.held.remove)
        self.pool = WarmPool(driver, settings or WarmSettings(), pins)
        self.recall = StopRequest()
        self.told: list[Event] = []
        self.hear: Callable[[Event], None] = lambda event: None
        self.logs: list[LogBuffer] = []
        self.outboxes: list[Outbox] = []
        self.backlogs: list[UnsentResults] = []

    async def run(
        self,
        grant: Grant,
        inputs: InputFiles | None = None,
        feed: ItemFeed | None = None,
        outcome_seconds: float = 0.1,
    ) -> Ran:
        spool = LogSpool.open(self._directory, grant.attempt_id)
        log, freight = LogBuffer(spool, 0.1), idle_freight(self._directory)
        limited = limited_log(log, grant.limits)
        self.logs.append(log)
        self.outboxes.append(freight.outbox)
        self.backlogs.append(freight.backlog)
        events: list[Event] = []
        self.told = events

        def tell(event: Event) -> None:
            events.append(event)
            self.hear(event)

        parts = (
            SYSTEM_PYTHON,
            Exposed(),
            inputs or InputFiles(),
            MaskedLog(limited, Mask(())),
            tell,
            self.recall,
            freight,
        )
        assert isinstance(grant.spec, FunctionSpec)
        job = PreparedAttempt(grant, *parts, feed=feed)
        outcome = await run_function(job, grant.spec, self.pool, outcome_seconds)
        await limited.close()
        log.flush()
        text = b"".join(piece.data for piece in spool.read(0, 10**6, 10**9)).decode()
        files = [
            parcel.path for parcel in freight.outbox.parcels if parcel.role is OutputRole.OUTPUT
        ]
        return Ran(outcome, events, text, files)

    async def timed(self, grant: Grant) -> tuple[Ran, float]:
        started = time.monotonic()
        return await self.run(grant), time.monotonic() - started
