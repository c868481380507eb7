"""Decodes a piece of a result: a value or an error for each of its items."""

from potluck.consumer.files.files import Files
from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.failure_text import fetch_failures, item_error
from potluck.consumer.tasks import Tasks
from potluck.model.blob import Value
from potluck.model.error import InvalidInput, PotluckError, UntrustedResult
from potluck.wire import item_file
from potluck.wire.consumer import FailedItem
from potluck.wire.results import ResultPiece, TaskResult


def find_failures(result: TaskResult, tasks: Tasks) -> dict[int, FailedItem]:
    """The failures of items without an exception: a limit was hit, or the interpreter ended."""
    items = sorted(
        piece.start for piece in result.pieces if piece.is_error and piece.value == Value()
    )
    return fetch_failures(tasks, result.task_id, items) if items else {}


def decode_piece(
    piece: ResultPiece,
    result: TaskResult,
    failed: FailedItem | None,
    opener: ValueDecoder,
    files: Files,
) -> list[object]:
    count = piece.end - piece.start
    try:
        blob = piece.value.blob
        data = piece.value.data if blob is None else files.download_bytes(blob, opener.most_bytes)
        if piece.is_error:
            error = opener.error(data, piece) if data else item_error(result, piece.start, failed)
            return [FailedValue(error)] * count
        encoded = item_file.unpack(data, count)
    except InvalidInput as error:
        untrusted = UntrustedResult(error.detail, "A correct node does not return this.")
        return [FailedValue(untrusted)] * count
    except PotluckError as error:
        return [FailedValue(error)] * count
    if len(encoded) != count:
        short = UntrustedResult("There are fewer or more values than items.", "Try it again.")
        return [FailedValue(short)] * count
    return opener.values(encoded, piece)
