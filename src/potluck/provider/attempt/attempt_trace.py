"""The trace of each attempt whose grant has one, for spans of this node."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from potluck.local import tracing
from potluck.wire.provider import Finished, Grant, Report

# A grant that is never reported stays until others push it out.
_MOST = 10_000
_PARENTS: OrderedDict[str, str] = OrderedDict()


def remember_trace(grant: Grant) -> None:
    if grant.traceparent is None or not tracing.is_tracing():
        return
    _PARENTS[grant.attempt_id] = grant.traceparent
    while len(_PARENTS) > _MOST:
        _PARENTS.popitem(last=False)


def record_step(name: str, grant: Grant, began_ns: int) -> None:
    """A step of an attempt that ends now."""
    if grant.traceparent is not None:
        facts = {"task": grant.task_id, "attempt": grant.attempt_id}
        tracing.record(name, grant.traceparent, began_ns, **facts)


@contextmanager
def traced_reports(reports: Sequence[Report]) -> Iterator[None]:
    """Sends reports below a span of the first attempt that ends; others have one of their own."""
    parents = [
        parent
        for report in reports
        if isinstance(report, Finished)
        and (parent := _PARENTS.pop(report.lease.attempt_id, None)) is not None
    ]
    if not parents:
        yield
        return
    began_ns = tracing.now_ns()
    with tracing.span("report", parents[0]):
        yield
    for parent in parents[1:]:
        tracing.record("report", parent, began_ns)
