"""A Python function, called in a sandboxed interpreter that is kept warm for the next call."""

from potluck.model.task_spec import FunctionSpec
from potluck.provider.functions.arguments import Arguments
from potluck.provider.functions.call import Call
from potluck.provider.functions.confinement import confine_function
from potluck.provider.functions.interpreter_key import key_of
from potluck.provider.functions.interpreter_pool import WarmPool
from potluck.provider.functions.items import FunctionRange
from potluck.provider.kinds.types import Job, Outcome


async def run_function(
    job: Job, spec: FunctionSpec, pool: WarmPool, outcome_seconds: float
) -> Outcome:
    confinement = confine_function(job)
    key = key_of(job, spec, confinement)
    total = job.grant.items_total
    with Arguments(spec.inputs, job.inputs, total) as arguments:
        async with pool.beside(job.grant, key):
            if total is None:
                call = Call(job, spec, arguments, outcome_seconds)
                return await call.to_its_end(pool, key, confinement)
            items = FunctionRange(job, spec, arguments, outcome_seconds)
            return await items.to_its_end(pool, key, confinement)
