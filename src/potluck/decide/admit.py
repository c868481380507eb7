"""May this task enter the queue? Valid beyond its types, and affordable in principle."""

from potluck.decide.settle import hold_micro
from potluck.model.error import InvalidInput, UnaffordableTask
from potluck.model.script import read_metadata
from potluck.model.task import TaskRequest

# What file systems take.
LONGEST_FILENAME_BYTES = 255


def admit(request: TaskRequest, available_micro: int, cheapest_micro_per_hour: int | None) -> None:
    """Raises what is wrong. `cheapest` is the lowest price for its devices, if any are offered."""
    read_metadata(request.spec.source)
    _check_filename(request.spec.filename)
    if cheapest_micro_per_hour is not None:
        _check_affordable(request, available_micro, cheapest_micro_per_hour)


def _check_filename(filename: str) -> None:
    if len(filename.encode()) > LONGEST_FILENAME_BYTES:
        raise InvalidInput(
            f"The file name is longer than {LONGEST_FILENAME_BYTES} bytes.", "Choose a shorter one."
        )
    if "/" in filename or "\\" in filename or filename in {".", ".."}:
        raise InvalidInput(
            f"The file name {filename!r} is a path.", "Send the name alone, for example train.py."
        )


def _check_affordable(request: TaskRequest, available_micro: int, cheapest: int) -> None:
    needed = hold_micro(cheapest, request.limits.run_seconds)
    if needed > available_micro:
        raise UnaffordableTask(
            f"Running to its limit would cost at least {needed / 1e6:.6f} credits;"
            f" the account has {available_micro / 1e6:.6f}.",
            "Lower the time limit (--time), or ask the operator for credit.",
        )
