"""Runs one attempt: its dependencies first, then its code, both in the sandbox.

However it goes, it ends with a `Finished` that says so; only being cancelled ends it without one.
Recalled, it ends with the reason of that: at once while it is prepared, since no work is lost by
that, and after its grace once the code runs. Nothing of the attempt is left running afterwards.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from potluck.model.error import InvalidInput, PotluckError, SandboxUnavailable
from potluck.model.ids import AccountId
from potluck.model.lease import Lease
from potluck.model.script import ScriptMetadata, read_metadata
from potluck.model.spec import ScriptSpec, kind_of
from potluck.model.task import EndReason
from potluck.model.usage import Usage
from potluck.provider.attempt_log import AttemptLog
from potluck.provider.event import CodeStarted, Event, PrepareBegan
from potluck.provider.expose.aside import Aside, Show
from potluck.provider.expose.expose import hide
from potluck.provider.expose.exposed import Exposed
from potluck.provider.items import RangeRun
from potluck.provider.line import one_line
from potluck.provider.meter import usage_of
from potluck.provider.outcomes import Outcomes
from potluck.provider.prepare.outcome import BARE, Environment, PrepareFailed
from potluck.provider.prepare.preparer import Preparer
from potluck.provider.sandbox.driver import Confinement, Driver, Ended, Recall, Started
from potluck.provider.sandbox.event_loop import drop
from potluck.wire.provider import Finished, Grant

T = TypeVar("T")
Tell = Callable[[Event], None]
# A sentence that says why the node's owner does not take it; None when it may run.
MayRun = Callable[[Grant], str | None]


class _Declined(Exception):
    """The owner's terms, asked once more: they may have changed since the server looked."""


class _Recalled(Exception):
    """It was called back before its code began."""


def anything(_: Grant) -> None:
    """For an owner who takes what the server sends."""


class Runner:
    """Runs attempts, any number at a time; of one account only, where one is named."""

    def __init__(
        self,
        driver: Driver,
        preparer: Preparer,
        outcome_seconds: float,
        only_account_id: AccountId | None,
        may_run: MayRun = anything,
        show: Show = hide,
    ) -> None:
        self._outcome_seconds = outcome_seconds
        self._driver = driver
        self._preparer = preparer
        self._only_account_id = only_account_id
        self._may_run = may_run
        self._aside = Aside(show)

    async def run(
        self, grant: Grant, log: AttemptLog, tell: Tell, recall: Recall | None = None
    ) -> Finished:
        began = time.monotonic()
        recall = recall or Recall()
        try:
            self._check_owner(grant)
            self._check_terms(grant)
            environment = await _unless(recall, self._prepare(grant, log, tell))
            prepare_seconds = time.monotonic() - began
            finished = await self._run_code(grant, environment, log, tell, prepare_seconds, recall)
        except _Declined as declined:
            finished = _failed(grant, EndReason.DECLINED, str(declined), 0.0)
        except _Recalled:
            assert recall.said is not None
            finished = _failed(
                grant, recall.said.reason, recall.said.detail, time.monotonic() - began
            )
        except PrepareFailed as failure:
            finished = _failed(grant, failure.reason, failure.detail, time.monotonic() - began)
        except (PotluckError, OSError) as error:
            finished = _failed(
                grant, EndReason.SANDBOX_FAILED, str(error), time.monotonic() - began
            )
        finally:
            self._preparer.release(grant.attempt_id)
            log.flush()
        return finished

    def _check_owner(self, grant: Grant) -> None:
        if self._only_account_id not in (None, grant.account_id):
            raise SandboxUnavailable(
                "This node has no sandbox and runs its owner's tasks only; this is another's."
            )

    def _check_terms(self, grant: Grant) -> None:
        if (why_not := self._may_run(grant)) is not None:
            raise _Declined(why_not)

    async def _expose(self, grant: Grant) -> Exposed:
        """A task that could not use what it pays for does not begin."""
        exposed = await self._aside.show(grant.devices)
        if exposed.problems:
            raise SandboxUnavailable(f"A device can not be shown: {' '.join(exposed.problems)}")
        return exposed

    async def _prepare(self, grant: Grant, log: AttemptLog, tell: Tell) -> Environment:
        metadata = _metadata_of(grant)
        if metadata == ScriptMetadata():
            return BARE
        tell(PrepareBegan(grant.attempt_id))

        async def remark(_: str, data: bytes) -> None:
            # What the installer says is the platform's remark, not the script's output.
            await log.write("potluck", data)

        return await self._preparer.prepare(
            grant.attempt_id, grant.account_id, metadata, grant.limits, remark
        )

    async def _run_code(
        self,
        grant: Grant,
        environment: Environment,
        log: AttemptLog,
        tell: Tell,
        prepare_seconds: float,
        recall: Recall,
    ) -> Finished:
        async def started() -> None:
            tell(CodeStarted(grant.attempt_id))

        exposed = await _unless(recall, self._expose(grant))
        confinement = _confinement(grant, environment, exposed)
        if grant.items_total is not None:
            ended = await self._run_items(grant, confinement, log, tell, started, recall)
        else:
            ended = await self._driver.run(confinement, log.write, started, recall=recall)
        return Finished(
            Lease(grant.attempt_id, grant.token),
            ended.reason,
            ended.exit_code,
            one_line(ended.detail),
            usage_of(ended, prepare_seconds),
        )

    async def _run_items(
        self,
        grant: Grant,
        confinement: Confinement,
        log: AttemptLog,
        tell: Tell,
        started: Started,
        recall: Recall,
    ) -> Ended:
        """Outcomes are told as they gather, also those of a range that is stopped half-way."""
        outcomes = Outcomes(grant.attempt_id, tell, self._outcome_seconds)
        try:
            run = RangeRun(grant, confinement, log, outcomes.add, recall)
            return await run.to_its_end(self._driver, started)
        finally:
            outcomes.flush()


async def _unless(recall: Recall, preparing: Coroutine[Any, Any, T]) -> T:
    """What is being prepared, unless it is called back meanwhile."""
    work, asked = asyncio.create_task(preparing), asyncio.create_task(recall.asked())
    try:
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            raise _Recalled
        return work.result()
    finally:
        await drop(work, asked)


def _metadata_of(grant: Grant) -> ScriptMetadata:
    if not isinstance(grant.spec, ScriptSpec):
        return ScriptMetadata()
    try:
        return read_metadata(grant.spec.source)
    except InvalidInput as error:
        raise PrepareFailed(EndReason.PREPARE_FAILED, f"{error.detail} {error.hint}") from error


def _confinement(grant: Grant, environment: Environment, exposed: Exposed) -> Confinement:
    if not isinstance(grant.spec, ScriptSpec):
        raise SandboxUnavailable(f"This node runs no tasks of kind {kind_of(grant.spec)}.")
    filename = _plain_name(grant.spec.filename)
    # A name that begins with a dash would be read as an option of Python.
    script = f"./{filename}" if filename.startswith("-") else filename
    return Confinement(
        name=grant.attempt_id,
        command=(environment.interpreter, "-u", script, *grant.spec.arguments),
        memory_bytes=grant.requirements.memory_bytes,
        disk_bytes=grant.requirements.disk_bytes,
        processes=grant.limits.processes,
        cores=grant.requirements.cores,
        seconds=grant.limits.run_seconds,
        log_bytes=grant.limits.log_bytes,
        environment={
            **grant.spec.environment,
            **exposed.environment,
            "POTLUCK_TASK_ID": grant.task_id,
            "POTLUCK_ATTEMPT_ID": grant.attempt_id,
        },
        files={filename: grant.spec.source.encode()},
        mounts=(*environment.mounts, *exposed.mounts),
        device_nodes=exposed.device_nodes,
    )


def _plain_name(filename: str) -> str:
    """The last part of a path as any system writes it; the sandbox takes plain names only."""
    name = filename.replace("\\", "/").rpartition("/")[2]
    return name if name.strip(".") else "script.py"


def _failed(grant: Grant, reason: EndReason, detail: str, prepare_seconds: float) -> Finished:
    return Finished(
        Lease(grant.attempt_id, grant.token),
        reason,
        detail=one_line(detail),
        usage=Usage(prepare_seconds=prepare_seconds),
    )
