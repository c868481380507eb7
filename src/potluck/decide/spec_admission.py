"""Is what a task is made of fit to be run? Valid beyond its types, one check a kind."""

from collections.abc import Iterable

from potluck.model.blob import NamedFile, Value
from potluck.model.error import InvalidInput
from potluck.model.script import check_dependencies, read_metadata
from potluck.model.task_spec import (
    CommandSpec,
    ContainerSpec,
    FunctionSpec,
    ScriptSpec,
    TaskSpec,
)

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
