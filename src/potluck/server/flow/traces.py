"""Spans of stages that work on many tasks at once, each in the trace of its task."""

from collections.abc import Collection

from potluck.local import tracing
from potluck.model.ids import TaskId
from potluck.store.database import Connection
from potluck.store.tasks import tasks


async def record_traces(
    connection: Connection, name: str, task_ids: Collection[TaskId], began_ns: int
) -> None:
    """For tasks that were submitted with a trace. Called only while this server traces."""
    if not task_ids:
        return
    for task_id, traceparent in (await tasks.traceparents(connection, task_ids)).items():
        tracing.record(name, traceparent, began_ns, task=task_id)
