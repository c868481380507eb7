"""Runs one attempt: prepares its files and dependencies, then runs its code in the sandbox.

Every run returns a `Finished`, unless it is cancelled. A recalled run ends with the reason of the
recall: immediately during preparation, when no work is lost, and after its grace once the code
runs. Afterwards none of its processes is left, and its output files are in the outbox.
"""

import asyncio
import time
from collections.abc import Callable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from potluck.local import tracing
from potluck.model.error import PotluckError, SandboxUnavailable
from potluck.model.ids import AccountId
from potluck.model.lease import AttemptState, Lease
from potluck.model.script import ScriptMetadata
from potluck.model.task import EndReason
from potluck.model.task_spec import CommandSpec, ContainerSpec, FunctionSpec, ScriptSpec, blobs_of
from potluck.model.units import show_bytes
from potluck.model.usage import Usage
from potluck.provider.attempt.attempt_trace import record_step, remember_trace
from potluck.provider.attempt.item_feed import ItemFeed
from potluck.provider.attempt.item_runner import RangeRun
from potluck.provider.attempt.kinds import PreparedAttempt, Tell, dependencies_of, plan_of
from potluck.provider.attempt.log_buffer import LogBuffer
from potluck.provider.attempt.log_limit import limited_log
from potluck.provider.attempt.mask import Mask, MaskedLog
from potluck.provider.attempt.unsent_results import Outcomes
from potluck.provider.attempt.usage_meter import DeviceMeter, ReadSpent, no_usage, usage_of
from potluck.provider.dependencies.outcome import SYSTEM_PYTHON, Environment, PrepareFailed
from potluck.provider.dependencies.preparer import Preparer
from potluck.provider.egress.egress import Egress
from potluck.provider.event import CodeStarted, Event, PrepareBegan
from potluck.provider.expose.expose import DeviceExposer, ExposeFunctions, hide
from potluck.provider.expose.exposed import Exposed
from potluck.provider.files.blob_transfer import AttemptTransfers
from potluck.provider.files.cache import FileCache
from potluck.provider.files.volume_cache import VolumeCache
from potluck.provider.files.work_directory import AttemptFiles, InputFiles
from potluck.provider.functions.arguments import Arguments
from potluck.provider.functions.call import FunctionCall
from potluck.provider.functions.confinement import confine_function
from potluck.provider.functions.interpreter import make_warm_key
from potluck.provider.functions.interpreter_pool import (
    DEFAULT_WARM_SETTINGS,
    HeldFiles,
    WarmPool,
    WarmSettings,
)
from potluck.provider.functions.items import FunctionItems
from potluck.provider.functions.stream_calls import StreamCalls
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.driver import (
    Driver,
    InputFailed,
    RunHooks,
    RunOutcome,
    StopRequest,
    StopRequested,
)
from potluck.wire.provider import Finished, Grant

log = structlog.get_logger()

# Returns why the node's owner does not take the grant; None if it may run.
MayRun = Callable[[Grant], str | None]


class _Declined(Exception):
    """The owner's current terms exclude the grant; the server may have known older ones."""


def accept_any(_: Grant) -> None:
    """For an owner without terms."""


NOTHING_SHOWN = ExposeFunctions(hide, lambda _: False)


class _PreparedRun(Struct, frozen=True):
    environment: Environment
    inputs: InputFiles
    exposed: Exposed
    prepare_seconds: float


class Runner:
    """Runs attempts, any number at a time, that `may_run` gives no reason against."""

    def __init__(
        self,
        driver: Driver,
        preparer: Preparer,
        cache: FileCache,
        egress: Egress,
        outcome_seconds: float,
        may_run: MayRun = accept_any,
        show: ExposeFunctions = NOTHING_SHOWN,
        warm: WarmSettings = DEFAULT_WARM_SETTINGS,
        read_spent: ReadSpent = no_usage,
        volumes: VolumeCache | None = None,
        owner_id: AccountId | None = None,  # without it, all tasks are of other accounts
    ) -> None:
        self._volumes = volumes
        self._owner_id = owner_id
        self._read_spent = read_spent
        self.warm = WarmPool(driver, warm, HeldFiles(self._share, self._release))
        self._outcome_seconds = outcome_seconds
        self._driver = driver
        self._preparer = preparer
        self._cache = cache
        self._egress = egress
        self._may_run = may_run
        self._exposure = DeviceExposer(show)

    async def run(
        self,
        grant: Grant,
        log: LogBuffer,
        tell: Tell,
        freight: AttemptTransfers,
        recall: StopRequest | None = None,
        turn: asyncio.Event | None = None,
        feed: ItemFeed | None = None,
    ) -> Finished:
        """Its code starts when `turn` is set, if there is one; all else is prepared before."""
        began = time.monotonic()
        recall = recall or StopRequest()
        masked = MaskedLog(limited_log(log, grant.limits), Mask(grant.secrets.values()))

        def failed(reason: EndReason, detail: str) -> Finished:
            return _failed(grant, reason, detail, time.monotonic() - began)

        try:
            self._check_terms(grant)
            remember_trace(grant)
            began_ns = tracing.now_ns()
            ready = await recall.unless(self._prepare_run(grant, masked, tell, freight))
            record_step("prepare", grant, began_ns)
            made = (ready.environment, ready.exposed, ready.inputs)
            is_of_other = grant.account_id != self._owner_id
            meter = DeviceMeter(self._read_spent, grant.devices)
            job = PreparedAttempt(
                *(grant, *made, masked, _metered(tell, meter), recall, freight),
                *(is_of_other, feed, turn),
            )
            began_ns = tracing.now_ns()
            outcome, network_bytes = await self._run_with_network(job)
            record_step("execute", grant, began_ns)
            usage = usage_of(job, outcome, ready.prepare_seconds, meter.spent(), network_bytes)
            return _finished(grant, outcome, usage, masked)
        except _Declined as declined:
            return _failed(grant, EndReason.DECLINED, str(declined), 0.0)
        except PrepareFailed as failure:
            return failed(failure.reason, failure.detail)
        except (InputFailed, StopRequested) as failure:
            return failed(failure.touched.reason, failure.touched.detail)
        except (PotluckError, OSError) as error:
            return failed(EndReason.SANDBOX_FAILED, str(error))
        finally:
            self._release(grant.attempt_id)
            await masked.close()
            log.flush()

    def _share(self, attempt_id: str, name: str) -> None:
        """Pins an attempt's files for its interpreter, too, which may outlive it."""
        self._preparer.share(attempt_id, name)
        self._cache.share(attempt_id, name)
        if self._volumes is not None:
            self._volumes.share(attempt_id, name)

    def _release(self, name: str) -> None:
        self._preparer.release(name)
        self._cache.release(name)
        if self._volumes is not None:
            self._volumes.release(name)

    def _check_terms(self, grant: Grant) -> None:
        if (why_not := self._may_run(grant)) is not None:
            raise _Declined(why_not)

    async def _prepare_run(
        self, grant: Grant, log: MaskedLog, tell: Tell, freight: AttemptTransfers
    ) -> _PreparedRun:
        began = time.monotonic()
        environment = await self._prepare(grant, log, tell)
        inputs = await self._bring(grant, freight)
        prepare_seconds = time.monotonic() - began
        return _PreparedRun(environment, inputs, await self._expose(grant), prepare_seconds)

    async def _expose(self, grant: Grant) -> Exposed:
        """A task that could not use its devices does not start."""
        exposed = await self._exposure.show(grant.devices)
        if exposed.problems:
            raise SandboxUnavailable(f"A device is not usable: {' '.join(exposed.problems)}")
        return exposed

    async def _prepare(self, grant: Grant, log: MaskedLog, tell: Tell) -> Environment:
        dependencies = dependencies_of(grant.spec, grant.requirements.python)
        if dependencies == ScriptMetadata():
            return SYSTEM_PYTHON
        tell(PrepareBegan(grant.attempt_id))

        async def remark(_: str, data: bytes) -> None:
            # The installer's output is the platform's, not the script's.
            await log.write("potluck", data)

        return await self._preparer.prepare(
            grant.attempt_id, grant.account_id, dependencies, grant.limits, remark
        )

    async def _bring(self, grant: Grant, freight: AttemptTransfers) -> InputFiles:
        blobs = [*blobs_of(grant.spec), *([] if grant.checkpoint is None else [grant.checkpoint])]
        inputs = InputFiles()
        if blobs:
            inputs = await self._cache.hold(
                grant.attempt_id, grant.account_id, blobs, freight.courier
            )
        if not grant.requirements.volumes:
            return inputs
        if self._volumes is None:
            raise SandboxUnavailable("This node has no room for volumes.")
        mounted = await self._volumes.hold(
            grant.attempt_id, grant.requirements.volumes, freight.courier
        )
        fetched_bytes = inputs.fetched_bytes + mounted.fetched_bytes
        return replace(inputs, volumes=mounted.trees, fetched_bytes=fetched_bytes)

    async def _run_with_network(self, job: PreparedAttempt) -> tuple[RunOutcome, int]:
        """The outcome, and the bytes that its code sent and received."""
        requirements = job.grant.requirements
        if not requirements.network:
            return await self._run_job(job), 0
        limit = show_bytes(requirements.network_bytes)
        detail = f"it sent and received more than {limit} over the network; raise --network-limit"

        def stop() -> None:
            job.recall.ask(EndReason.NETWORK_LIMIT, 0.0, detail)

        async with self._egress.serving_task(
            job.grant.attempt_id, requirements.network, requirements.network_bytes, stop
        ) as (way_out, socket):
            outcome = await self._run_job(replace(job, network=socket))
        problems = {
            "was refused: --network does not allow it": way_out.refused,
            "was refused: it is not a public address": way_out.not_public,
            "was not reached: it has no address or does not answer": way_out.unreachable,
        }
        for problem, hosts in problems.items():
            for host in hosts:
                await job.log.write("potluck", f"{host} {problem}.\n".encode())
        return outcome, way_out.budget.spent_bytes

    async def _run_job(self, job: PreparedAttempt) -> RunOutcome:
        match job.grant.spec:
            case FunctionSpec() as spec:
                return await run_function(job, spec, self.warm, self._outcome_seconds)
            case ScriptSpec() | CommandSpec() | ContainerSpec() as spec:
                async with self.warm.beside(job.grant):
                    return await self._run_command(job, spec)

    async def _run_command(
        self, job: PreparedAttempt, spec: ScriptSpec | CommandSpec | ContainerSpec
    ) -> RunOutcome:
        plan = plan_of(job, spec)
        porter = AttemptFiles(job, plan.puts)
        if job.grant.items_total is not None:
            outcome = await self._run_items(RangeRun(job, plan.confinement, porter), job)
        else:
            hooks = RunHooks(job.started, recall=job.recall, errand=porter)
            outcome = await self._driver.run(plan.confinement, job.log.write, hooks)
        await porter.tell_lost()
        return outcome

    async def _run_items(self, run: RangeRun, job: PreparedAttempt) -> RunOutcome:
        """Reports outcomes as they gather, also those of a range that is stopped half-way."""
        outcomes = Outcomes(job.grant.attempt_id, job.tell, self._outcome_seconds)
        try:
            return await run.to_its_end(self._driver, outcomes.add)
        finally:
            outcomes.flush()


def _metered(tell: Tell, meter: DeviceMeter) -> Tell:
    """Counts the devices from the start of the code: before, others may have used them."""

    def tell_metered(event: Event) -> None:
        if isinstance(event, CodeStarted):
            meter.restart()
        tell(event)

    return tell_metered


async def run_function(
    job: PreparedAttempt, spec: FunctionSpec, pool: WarmPool, outcome_seconds: float
) -> RunOutcome:
    confinement = confine_function(job)
    key = make_warm_key(job, spec, confinement)
    total = job.grant.items_total
    if job.feed is not None:
        async with pool.beside(job.grant, key):
            calls = StreamCalls(job, spec, job.feed, outcome_seconds)
            return await calls.to_its_end(pool, key, confinement)
    with Arguments(spec.inputs, job.inputs, total) as arguments:
        async with pool.beside(job.grant, key):
            if total is None:
                call = FunctionCall(job, spec, arguments, outcome_seconds)
                return await call.to_its_end(pool, key, confinement)
            items = FunctionItems(job, spec, arguments, outcome_seconds)
            return await items.to_its_end(pool, key, confinement)


def _finished(grant: Grant, outcome: RunOutcome, usage: Usage, log: MaskedLog) -> Finished:
    """An exception quotes the task: it goes where the server encrypts it."""
    is_exception = outcome.reason is EndReason.EXCEPTION
    has_failed = outcome.reason.facts.attempt_state is AttemptState.FAILED
    return Finished(
        Lease(grant.attempt_id, grant.token),
        outcome.reason,
        outcome.exit_code,
        "" if is_exception else one_line(outcome.detail),
        usage,
        outcome.value,
        log.last_lines(outcome.detail if is_exception else "") if has_failed else "",
    )


def _failed(grant: Grant, reason: EndReason, detail: str, prepare_seconds: float) -> Finished:
    return Finished(
        Lease(grant.attempt_id, grant.token),
        reason,
        detail=one_line(detail),
        usage=Usage(prepare_seconds=prepare_seconds),
    )


def outcome_of_run(grant: Grant, run: asyncio.Task[Finished]) -> Finished:
    """The result of the run; an internal error is logged and becomes an outcome too."""
    error = run.exception()
    if error is None:
        return run.result()
    log.error("run failed with an internal error", attempt_id=grant.attempt_id, exc_info=error)
    detail = one_line(f"Internal error of the provider ({type(error).__name__}: {error}).")
    lease = Lease(grant.attempt_id, grant.token)
    return Finished(lease, EndReason.SANDBOX_FAILED, detail=detail)
