"""May this task enter the queue? Valid beyond its types, and affordable in principle."""

from collections.abc import Iterable, Mapping

from potluck.decide.charges import hold_micro
from potluck.model.blob import NamedFile, Value
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.error import InvalidInput, QuotaExceeded, UnaffordableTask
from potluck.model.ids import TaskId
from potluck.model.script import check_dependencies, read_metadata
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import CommandSpec, ContainerSpec, FunctionSpec, ScriptSpec, TaskSpec

# What file systems take.
LONGEST_FILENAME_BYTES = 255
# In the task's directory, and for what the task leaves there.
KEPT_NAMES = ("output", "checkpoint")


def check_spec(spec: TaskSpec) -> None:
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
                raise InvalidInput("The command has no name.", "Say which program is to run.")
            _check_files(spec.files, KEPT_NAMES)
            _check_items(spec.inputs)
        case ContainerSpec():
            _check_files(spec.files, KEPT_NAMES)
            _check_items(spec.inputs)


def _check_filename(filename: str, has_folder: bool) -> None:
    """In a folder that goes along, a script may lie deeper."""
    if len(filename.encode()) > LONGEST_FILENAME_BYTES:
        raise InvalidInput(
            f"The file name is longer than {LONGEST_FILENAME_BYTES} bytes.", "Choose a shorter one."
        )
    parts = filename.split("/") if has_folder else [filename]
    if any("/" in part or "\\" in part or part in {"", ".", ".."} for part in parts):
        raise InvalidInput(
            f"The file name {filename!r} is a path.",
            "Send the name alone, for example train.py; in a folder, a path from its top on.",
        )


def _check_value(name: str, value: Value) -> None:
    if value.blob is not None and value.data:
        raise InvalidInput(
            f"The function's `{name}` is given twice, as data and as a blob.", "Choose one of them."
        )


def _check_items(inputs: Value | None) -> None:
    if inputs is not None and inputs.blob is not None and inputs.data:
        raise InvalidInput(
            "What the items are given is there twice, as data and as a blob.", "Choose one of them."
        )


def _check_files(files: Iterable[NamedFile], taken: Iterable[str]) -> None:
    """Each has a place of its own, and none stands where another has to be a directory."""
    paths: set[str] = set()
    for file in files:
        if any(len(part.encode()) > LONGEST_FILENAME_BYTES for part in file.path.split("/")):
            raise InvalidInput(
                f"A name in {file.path[:60]!r}… is longer than {LONGEST_FILENAME_BYTES} bytes.",
                "Choose a shorter one.",
            )
        if file.path in paths:
            raise InvalidInput(f"The file {file.path!r} is there twice.", "Send each path once.")
        paths.add(file.path)
    for path in sorted(paths):
        own = next((each for each in (path, path.partition("/")[0]) if each in taken), None)
        if own is not None:
            raise InvalidInput(
                f"The file {path!r} stands where the task's own {own!r} is.",
                "Choose another path for it.",
            )
        above = next((each for each in _above(path) if each in paths), None)
        if above is not None:
            raise InvalidInput(
                f"{above!r} is a file, and {path!r} would be in it.", "Choose other paths."
            )


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:length]) for length in range(1, len(parts)))


def admit(request: TaskRequest, available_micro: int, cheapest_micro_per_hour: int | None) -> None:
    """Raises what is wrong. `cheapest` is the lowest price for its devices, if any are offered."""
    check_spec(request.spec)
    _check_model(request.requirements.device_model)
    _check_fraction(request)
    _check_times(request)
    _check_array(request)
    if len(set(request.after)) < len(request.after):
        raise InvalidInput("A task is named twice in `after`.", "Name each of them once.")
    check_affordable(request, available_micro, cheapest_micro_per_hour)


def admit_after(after: Iterable[TaskId], states: Mapping[TaskId, TaskState]) -> None:
    """All that it is to come after must be the account's own; others might as well not exist."""
    for task_id in after:
        if task_id not in states:
            raise InvalidInput(
                f"There is no task {task_id} of yours that another could come after.",
                "`potluck ps` lists your tasks.",
            )


def admit_priority(priority: int, most: int | None) -> None:
    """Where people do not know each other, the highest is not for everybody to take."""
    if most is not None and priority > most:
        raise QuotaExceeded(
            f"It has the priority {priority}; the account's tasks may have {most} at most.",
            "Lower it (--priority), or ask the operator.",
        )


def queue_is_full(most: int) -> QuotaExceeded:
    if most == 0:
        return QuotaExceeded("The account may not submit tasks.", "Ask the operator for a quota.")
    return QuotaExceeded(
        f"The account has {most} queued tasks, which is all that it may have.",
        "Wait until some have started, cancel some, or put many into one array (--array).",
    )


def _check_model(patterns: str | None) -> None:
    if patterns is not None and not all(map(str.strip, patterns.split("|"))):
        raise InvalidInput(
            f"One of the models in {patterns!r} is empty, which every model would match.",
            'Write it like "RTX 40*|A100".',
        )


def _check_fraction(request: TaskRequest) -> None:
    wanted = request.requirements
    if wanted.device_milli is None or wanted.device_milli == WHOLE_DEVICE_MILLI:
        return
    if wanted.device_count > 1:
        raise InvalidInput(
            f"A fraction of a device is asked for, and {wanted.device_count} devices.",
            "Ask for a fraction of one device, or for whole ones.",
        )
    if wanted.device_kind is DeviceKind.CPU:
        raise InvalidInput(
            "A fraction of a processor is asked for.",
            "Say how many cores it needs: that is its share of the processor.",
        )


def _check_times(request: TaskRequest) -> None:
    delay, within = request.delay_seconds, request.start_within_seconds
    if delay is not None and within is not None and delay >= within:
        raise InvalidInput(
            f"It is not to start for {delay:g} s, and to be started within {within:g} s.",
            "The deadline counts from now on, as the delay does: choose a later one.",
        )
    limit = request.limits.run_seconds
    if request.expected_seconds is not None and request.expected_seconds > limit:
        raise InvalidInput(
            f"It is expected to take {request.expected_seconds:g} s and stopped after {limit:g} s.",
            "Raise the time limit (--time), or expect less.",
        )


def _check_array(request: TaskRequest) -> None:
    if request.items is None:
        if request.spec.inputs is not None and not isinstance(request.spec, FunctionSpec):
            raise InvalidInput(
                "Only items of an array may be given something each.",
                "Say how many there are, in `items`.",
            )
        if request.allow_failures:
            raise InvalidInput(
                "Only items of an array may be allowed to fail.",
                "Say how many there are (--array).",
            )
    elif request.allow_failures > request.items:
        raise InvalidInput(
            f"{request.allow_failures} items may fail, and there are {request.items}.",
            "Allow at most as many failures as there are items.",
        )


def check_affordable(request: TaskRequest, available_micro: int, cheapest: int | None) -> None:
    """One attempt, or one item of an array: what the account can hold for decides what runs."""
    if cheapest is None:
        return
    price = (
        cheapest * (request.requirements.device_milli or WHOLE_DEVICE_MILLI) // WHOLE_DEVICE_MILLI
    )
    needed = hold_micro(price, request.limits.run_seconds)
    if needed > available_micro:
        what = "Running" if request.items is None else "Running one item"
        raise UnaffordableTask(
            f"{what} to its limit would cost at least {needed / 1e6:.6f} credits;"
            f" the account has {available_micro / 1e6:.6f}.",
            "Lower the time limit (--time), or ask the operator for credit.",
        )
