"""Result poll: waits for the results of many function tasks, without a database connection.

Data always comes from the database; wake-ups only speed it up.
"""

import asyncio

from potluck.model.error import NotFound
from potluck.model.ids import AccountId, TaskId
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.tasks import function_results
from potluck.store.tasks.function_results import ResultProgress
from potluck.wire.results import AskResults, Results, TaskResult

# Limits per response; the rest follows with the next.
_PAGE_BYTES = 4 * 2**20
_PAGE_PIECES = 10_000


async def wait_for_results(
    services: Services, account_id: AccountId, request: AskResults
) -> Results:
    """Returns as soon as a task has ended or has new results."""
    behind = {task.task_id: task.behind for task in request.tasks}
    cancelled = {task.task_id: task.cancelled for task in request.tasks}
    clock, settings = asyncio.get_running_loop(), services.settings
    deadline = clock.time() + min(request.wait_seconds, settings.poll_seconds)
    result_topics = [topics.results(task_id) for task_id in behind]
    async with services.live.listen(*result_topics, topics.shutdown(services.instance)) as listener:
        while True:
            results = await _look(services, account_id, behind, cancelled)
            rest_seconds = deadline - clock.time()
            if results or rest_seconds <= 0 or services.stopping.is_set():
                return Results(results)
            await listener.wait(min(rest_seconds, settings.follow_poll_seconds))


async def _look(
    services: Services,
    account_id: AccountId,
    behind: dict[TaskId, int],
    cancelled: dict[TaskId, int],
) -> list[TaskResult]:
    async with services.database.statement() as connection:
        progress = await function_results.load_progress(
            connection, services.vault, account_id, behind, _PAGE_BYTES, _PAGE_PIECES
        )
    for task_id in behind:
        if task_id not in progress:
            raise NotFound(f"You have no task {task_id}.", "`potluck ps` lists your tasks.")
    return [
        _task_result(progress[task_id], offset)
        for task_id, offset in behind.items()
        if progress[task_id].result_count > offset
        or progress[task_id].state.is_final
        or sum(map(len, progress[task_id].cancelled)) > cancelled[task_id]
    ]


def _task_result(task: ResultProgress, offset: int) -> TaskResult:
    behind = offset + len(task.pieces)
    note = "its results have been deleted" if task.is_cleared else ""
    return TaskResult(
        task.task_id,
        task.state,
        behind,
        task.pieces,
        task.reason,
        task.detail or note,
        has_more=behind < task.result_count,
        last_lines=task.last_lines,
        cancelled=task.cancelled,
    )
