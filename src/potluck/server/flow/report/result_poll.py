"""Results: whoever called functions waits here for what they gave, of many tasks at once.

The truth is read; wake-ups only hurry. Nobody holds a database connection while waiting.
"""

import asyncio

from potluck.model.error import NotFound
from potluck.model.ids import AccountId, TaskId
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.tasks import function_results
from potluck.store.tasks.function_results import ResultProgress
from potluck.wire.results import AskResults, Results, TaskResult

# An answer has its measure; the rest is for the next.
_PAGE_BYTES = 4 * 2**20
_PAGE_PIECES = 10_000


async def ask(services: Services, account_id: AccountId, asked: AskResults) -> Results:
    """Answers at once if a task is over or has something new, else when one is or has."""
    behind = {each.task_id: each.behind for each in asked.tasks}
    clock, settings = asyncio.get_running_loop(), services.settings
    deadline = clock.time() + min(asked.wait_seconds, settings.poll_seconds)
    names = [topics.results(task_id) for task_id in behind]
    async with services.live.listen(*names, topics.shutdown(services.instance)) as listener:
        while True:
            found = await _look(services, account_id, behind)
            rest_seconds = deadline - clock.time()
            if found or rest_seconds <= 0 or services.stopping.is_set():
                return Results(found)
            await listener.wait(min(rest_seconds, settings.follow_poll_seconds))


async def _look(
    services: Services, account_id: AccountId, behind: dict[TaskId, int]
) -> list[TaskResult]:
    async with services.database.statement() as connection:
        known = await function_results.look(
            connection, services.vault, account_id, behind, _PAGE_BYTES, _PAGE_PIECES
        )
    for task_id in behind:
        if task_id not in known:
            raise NotFound(
                f"There is no task {task_id} of yours.", "`potluck ps` lists your tasks."
            )
    return [
        _told(known[task_id], seen)
        for task_id, seen in behind.items()
        if known[task_id].result_count > seen or known[task_id].state.is_final
    ]


def _told(task: ResultProgress, seen: int) -> TaskResult:
    behind = seen + len(task.pieces)
    gone = "what it gave is kept no longer" if task.is_cleared else ""
    return TaskResult(
        task.task_id,
        task.state,
        behind,
        task.pieces,
        task.reason,
        task.detail or gone,
        has_more=behind < task.result_count,
    )
