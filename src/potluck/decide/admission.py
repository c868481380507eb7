"""Admission of a task to the queue: checks beyond its types, and that the account can pay."""

from collections.abc import Iterable, Mapping

from potluck.decide.charges import DEFAULT_TIMES, SettleTimes, hold_micro
from potluck.decide.pool.model_patterns import MOST_MODELS
from potluck.model.blob import (
    MOST_STDIN_BYTES,
    BlobRef,
    NamedFile,
    Value,
    check_mounts,
    find_nested,
    is_path,
)
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.error import InvalidInput, QuotaExceeded, TooLarge, UnaffordableTask
from potluck.model.ids import TaskId
from potluck.model.script import check_dependencies, read_metadata
from potluck.model.task import HEARTBEATS_OF_SILENCE, TaskRequest, TaskState
from potluck.model.task_spec import (
    CommandSpec,
    ContainerSpec,
    FunctionSpec,
    ScriptSpec,
    TaskSpec,
    check_texts,
    stdin_of,
)
from potluck.model.units import show_amount, show_credits, show_seconds

# The limit of common file systems.
LONGEST_FILENAME_BYTES = 255
# Directories that Potluck creates in the task's directory.
KEPT_NAMES = ("output", "checkpoint")


def check_spec(spec: TaskSpec) -> None:
    check_texts(spec)
    match spec:
        case ScriptSpec():
            read_metadata(spec.source)
            _check_filename(spec.filename, spec.folder is not None)
            _check_files(spec.files, (spec.filename, *KEPT_NAMES))
            _check_items(spec.inputs)
        case FunctionSpec():
            _check_value("code", spec.code)
            _check_value("inputs", spec.inputs)
            if spec.code == Value():
                raise InvalidInput("The function has no code.", "Send it pickled, in `code`.")
            check_dependencies(spec.dependencies)
            _check_files(spec.files, KEPT_NAMES)
        case CommandSpec():
            if not spec.command[0]:
                raise InvalidInput("The command is empty.", "Name the program to run.")
            _check_files(spec.files, KEPT_NAMES)
            _check_items(spec.inputs)
        case ContainerSpec():
            _check_files(spec.files, KEPT_NAMES)
            _check_items(spec.inputs)


def _check_filename(filename: str, has_folder: bool) -> None:
    """A script in a folder may have a path; any other has a plain name."""
    if len(filename.encode()) > LONGEST_FILENAME_BYTES:
        raise InvalidInput(
            f"The file name is longer than {LONGEST_FILENAME_BYTES} bytes.", "Choose a shorter one."
        )
    parts = filename.split("/") if has_folder else [filename]
    if any("/" in part or "\\" in part or part in {"", ".", ".."} for part in parts):
        raise InvalidInput(
            f"The file name {filename!r} is a path.",
            "Send only the name, such as train.py; with a folder, a path relative to it.",
        )
    if not is_path(filename):
        raise InvalidInput(
            f"The file name {filename!r} is reserved: Windows would open a device.",
            "Choose another name than NUL, CON, COM1 and so on, with any extension.",
        )


def _check_stdin(stdin: BlobRef | None) -> None:
    if stdin is not None and stdin.size_bytes > MOST_STDIN_BYTES:
        raise TooLarge(
            f"The task's stdin exceeds {MOST_STDIN_BYTES // 2**20} MiB.",
            "Send it as a file, which may be larger.",
        )


def _check_value(name: str, value: Value) -> None:
    if value.blob is not None and value.data:
        raise InvalidInput(f"The function's `{name}` is both data and a blob.", "Send one of them.")


def _check_items(inputs: Value | None) -> None:
    if inputs is not None and inputs.blob is not None and inputs.data:
        raise InvalidInput("The inputs of the items are both data and a blob.", "Send one of them.")


def _check_files(files: Iterable[NamedFile], taken: Iterable[str]) -> None:
    """Checks that paths are unique, and that no file's path is another file's directory."""
    paths: set[str] = set()
    for file in files:
        name = file.path.encode()
        if len(name) > LONGEST_FILENAME_BYTES < max(map(len, name.split(b"/"))):
            raise InvalidInput(
                f"A name in {file.path[:60]!r}… is longer than {LONGEST_FILENAME_BYTES} bytes.",
                "Choose a shorter one.",
            )
        if file.path in paths:
            raise InvalidInput(f"The file {file.path!r} appears twice.", "Send each path once.")
        paths.add(file.path)
    for path in sorted(paths):
        own = next((each for each in (path, path.partition("/")[0]) if each in taken), None)
        if own is not None:
            raise InvalidInput(
                f"The path {path!r} is reserved for the task's own {own!r}.", "Choose another path."
            )
    if (nested := find_nested(paths)) is not None:
        raise InvalidInput(
            f"{nested[0]!r} is a file, so it cannot contain {nested[1]!r}.", "Choose other paths."
        )


def admit(
    request: TaskRequest,
    available_micro: int,
    cheapest_micro_per_hour: int | None,
    least_silence_seconds: float,
    settle_times: SettleTimes = DEFAULT_TIMES,
) -> None:
    """Raises if the task is not valid. `cheapest_micro_per_hour` is the lowest price, if any."""
    check_spec(request.spec)
    script = [request.spec.filename] if isinstance(request.spec, ScriptSpec) else []
    files = [*script, *(file.path for file in request.spec.files)]
    check_mounts(request.requirements.volumes, files)
    _check_stdin(stdin_of(request.spec))
    check_models(request.requirements.device_model)
    _check_fraction(request)
    _check_times(request)
    _check_silence(request.limits.stop_after_silence_seconds, least_silence_seconds)
    _check_array(request)
    if len(set(request.after)) < len(request.after):
        raise InvalidInput("`after` names a task twice.", "Name each task once.")
    check_affordable(request, available_micro, cheapest_micro_per_hour, settle_times)


def admit_after(after: Iterable[TaskId], states: Mapping[TaskId, TaskState]) -> None:
    """Checks that `after` names only tasks of the same account; others are treated as unknown."""
    for task_id in after:
        if task_id not in states:
            raise InvalidInput(
                f"You have no task {task_id} to wait for.", "`potluck ps` lists your tasks."
            )


def admit_priority(priority: int, most: int | None) -> None:
    if most is not None and priority > most:
        raise QuotaExceeded(
            f"The task has priority {priority}; the account's tasks may have at most {most}.",
            "Lower it (--priority), or ask the operator.",
        )


def queue_full_error(most: int) -> QuotaExceeded:
    if most == 0:
        return QuotaExceeded("The account may not submit tasks.", "Ask the operator for a quota.")
    return QuotaExceeded(
        f"The account has reached its limit of {most} queued tasks.",
        "Wait until some have started, cancel some, or submit an array (--array).",
    )


def check_models(patterns: str | None) -> None:
    models = [] if patterns is None else patterns.split("|")
    if not all(map(str.strip, models)):
        raise InvalidInput(
            f"One of the models in {patterns!r} is empty and would match every model.",
            'Write it like "RTX 40*|A100".',
        )
    if len(models) > MOST_MODELS:
        raise InvalidInput(
            f"{len(models)} models are named; at most {MOST_MODELS} are allowed.",
            'Use patterns that cover several, such as "RTX 40*".',
        )


def _check_fraction(request: TaskRequest) -> None:
    requirements = request.requirements
    if requirements.device_milli is None or requirements.device_milli == WHOLE_DEVICE_MILLI:
        return
    if requirements.device_count > 1:
        raise InvalidInput(
            f"The task requests a fraction of a device, and {requirements.device_count} devices.",
            "Request a fraction of one device, or whole devices.",
        )
    if requirements.device_kind is DeviceKind.CPU:
        raise InvalidInput(
            "The task requests a fraction of a processor.", "Request a number of cores instead."
        )


def _check_times(request: TaskRequest) -> None:
    delay, within = request.delay_seconds, request.start_within_seconds
    if delay is not None and within is not None and delay >= within:
        raise InvalidInput(
            f"The task is delayed by {delay:g} s but must start within {within:g} s.",
            "Both count from now: choose a later deadline or a shorter delay.",
        )
    limit = request.limits.run_seconds
    if request.expected_seconds is not None and request.expected_seconds > limit:
        raise InvalidInput(
            f"The task is expected to take {request.expected_seconds:g} s,"
            f" but its time limit is {limit:g} s.",
            "Raise the time limit (--time), or lower the expected time.",
        )


def _check_silence(limit_seconds: float | None, least_seconds: float) -> None:
    """A shorter limit would end tasks on nodes that answer."""
    if limit_seconds is not None and limit_seconds < least_seconds:
        raise InvalidInput(
            f"The task would stop after {limit_seconds:g} s without the server, but nodes only send"
            f" a heartbeat every {least_seconds / HEARTBEATS_OF_SILENCE:g} s.",
            f"Allow at least three of them (--stop-after-silence {least_seconds:g}s).",
        )


def _check_array(request: TaskRequest) -> None:
    if request.items is None:
        if request.spec.inputs is not None and not isinstance(request.spec, FunctionSpec):
            raise InvalidInput(
                "Only an array may have `inputs` for its items.",
                "Set the number of items in `items`.",
            )
        if request.allow_failures:
            raise InvalidInput(
                "Only an array may allow failures.", "Set the number of items (--array)."
            )
    elif stdin_of(request.spec) is not None:
        raise InvalidInput(
            "An array cannot have a stdin.", "Send a file, and let each item read it by its name."
        )
    elif request.allow_failures > request.items:
        raise InvalidInput(
            f"The array allows {request.allow_failures} failures but has {request.items} items.",
            "Allow at most as many failures as there are items.",
        )


def check_affordable(
    request: TaskRequest, available_micro: int, cheapest: int | None, settle_times: SettleTimes
) -> None:
    """Checks that the account can hold enough to start one attempt, or one item of an array.

    At the lowest price that is offered; where all offers exceed the task's maximum price, it would
    wait for another one, and pays at most that price. Without an offer no price is known.
    """
    if cheapest is None:
        return
    requirements = request.requirements
    price = cheapest * (requirements.device_milli or WHOLE_DEVICE_MILLI) // WHOLE_DEVICE_MILLI
    ceiling = requirements.max_price_micro_per_hour
    cost, option = "at the lowest price", "the time limit (--time)"
    if ceiling is not None and ceiling < price:
        price, cost = ceiling, "at its maximum price"
        option += " or the maximum price (--max-price)"
    seconds = settle_times.funded_seconds(request.limits.run_seconds)
    needed = hold_micro(price, seconds)
    if needed > available_micro:
        what = "The task" if request.items is None else "One item"
        raise UnaffordableTask(
            f"{what} needs {show_amount(needed)} to start, for its first {show_seconds(seconds)}"
            f" {cost}; the account has {show_credits(available_micro)}.",
            f"Lower {option}, or ask the operator for credit (`potluck admin grant`).",
        )
