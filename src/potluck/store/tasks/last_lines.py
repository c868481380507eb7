"""What failed code wrote last: sealed, since it quotes the task.

The last lines of its stderr, and the exception of a function.
"""

from collections.abc import Sequence

from potluck.decide.arrays.items import ItemFailure
from potluck.decide.attempt_change import AttemptChange
from potluck.model.ids import TaskId
from potluck.store.sealing.vault import Vault

# Where they are sealed; the row is the attempt's id, or the task's id and the item.
ATTEMPT_LINES = ("attempts", "sealed_last_lines")
ITEM_LINES = ("failed_items", "sealed_last_lines")


def seal_attempts(vault: Vault, changes: Sequence[AttemptChange]) -> list[bytes | None]:
    """None for those that wrote nothing, or succeeded."""
    return [_seal(vault, ATTEMPT_LINES, change.attempt.id, change.last_lines) for change in changes]


def seal_items(
    vault: Vault, task_id: TaskId, failures: Sequence[ItemFailure]
) -> list[bytes | None]:
    return [
        _seal(vault, ITEM_LINES, item_row(task_id, failure.item), failure.last_lines)
        for failure in failures
    ]


def item_row(task_id: str, item: int) -> str:
    return f"{task_id}/{item}"


def _seal(vault: Vault, column: tuple[str, str], row: str, lines: str) -> bytes | None:
    return vault.seal(*column, row, lines.encode()) if lines else None


def open_lines(vault: Vault, column: tuple[str, str], row: str, sealed: bytes | None) -> str:
    return "" if sealed is None else vault.open(*column, row, sealed).decode()
