"""A piece of what a task gave, as values: one for each of its items, or the error in its place."""

from potluck.consumer.files.files import Files
from potluck.consumer.functions.decode_value import FailedValue, Opener
from potluck.consumer.functions.failure_text import failures_of, item_ended
from potluck.consumer.tasks import Tasks
from potluck.model.blob import Value
from potluck.model.error import InvalidInput, PotluckError, UntrustedResult
from potluck.wire import item_file
from potluck.wire.consumer import FailedItem
from potluck.wire.results import ResultPiece, TaskResult


def failures_in(told: TaskResult, tasks: Tasks) -> dict[int, FailedItem]:
    """Why items failed that raised nothing: a wall was touched, or their interpreter ended."""
    items = sorted(
        piece.start for piece in told.pieces if piece.is_error and piece.value == Value()
    )
    return failures_of(tasks, told.task_id, items) if items else {}


def values_of(
    piece: ResultPiece,
    told: TaskResult,
    failed: FailedItem | None,
    opener: Opener,
    files: Files,
) -> list[object]:
    count = piece.end - piece.start
    try:
        blob = piece.value.blob
        data = piece.value.data if blob is None else files.download_bytes(blob, opener.most_bytes)
        if piece.is_error:
            error = opener.error(data, piece) if data else item_ended(told, piece.start, failed)
            return [FailedValue(error)] * count
        found = item_file.unpack(data, count)
    except InvalidInput as error:
        return [FailedValue(UntrustedResult(error.detail, "No sound node answers so."))] * count
    except PotluckError as error:
        return [FailedValue(error)] * count
    if len(found) != count:
        short = UntrustedResult("There are not as many values as items.", "Try it again.")
        return [FailedValue(short)] * count
    return opener.values(found, piece)
