"""The content of a task, one class for each kind."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.blob import MOST_INPUT_FILES, BlobRef, NamedFile, Value
from potluck.model.bounded_types import (
    END,
    ArgumentText,
    ManyText,
    ShortText,
    SourceText,
    VariableName,
    replace_deceiving,
)
from potluck.model.error import InvalidInput

ManyArguments = Annotated[tuple[ManyText, ...], Meta(max_length=1024)]
ManyVariables = Annotated[dict[VariableName, ManyText], Meta(max_length=256)]
Arguments = Annotated[tuple[ArgumentText, ...], Meta(max_length=1024)]
Variables = Annotated[dict[VariableName, ArgumentText], Meta(max_length=256)]
InputFiles = Annotated[tuple[NamedFile, ...], Meta(max_length=MOST_INPUT_FILES)]
ImageText = Annotated[
    str, Meta(min_length=1, max_length=500, pattern=f"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*{END}")
]


# The sandbox gets the input of an item in one message.
MOST_ITEM_BYTES = 65_536


class ScriptSpec(Struct, frozen=True, tag_field="kind", tag="script"):
    """A Python file, with the dependencies in its PEP 723 block."""

    filename: ShortText
    source: SourceText
    arguments: ManyArguments = ()
    environment: ManyVariables = {}
    folder: BlobRef | None = None  # an archive that is unpacked into the working directory
    files: InputFiles = ()  # read-only files in the working directory
    inputs: Value | None = None  # of an array: an item file of `ItemInputs`, as JSON
    stdin: BlobRef | None = None  # read as its stdin; without it stdin is empty


class FunctionSpec(Struct, frozen=True, tag_field="kind", tag="function"):
    """A Python function, pickled by its owner and unpickled only in the sandbox.

    For an array, `inputs` has the arguments of each item (see wire/item_file.py), else those of
    the one call.
    """

    name: ShortText
    code: Value
    inputs: Value
    python: Annotated[str, Meta(pattern=f"^3\\.[0-9]{{1,3}}{END}")]  # the version that pickled it
    dependencies: Annotated[tuple[ShortText, ...], Meta(max_length=256)] = ()
    environment: ManyVariables = {}
    folder: BlobRef | None = None
    files: InputFiles = ()
    pickles_results: bool = False  # instead of plain data; opened from trusted nodes only


class CommandSpec(Struct, frozen=True, tag_field="kind", tag="command"):
    """A program of the node's system or of the uploaded folder, with its arguments."""

    command: Annotated[tuple[ManyText, ...], Meta(min_length=1, max_length=1024)]
    environment: ManyVariables = {}
    folder: BlobRef | None = None
    files: InputFiles = ()
    inputs: Value | None = None
    stdin: BlobRef | None = None


class ContainerSpec(Struct, frozen=True, tag_field="kind", tag="container"):
    """A container image, with a command if not its own."""

    image: ImageText
    command: ManyArguments = ()
    environment: ManyVariables = {}
    folder: BlobRef | None = None
    files: InputFiles = ()
    inputs: Value | None = None
    stdin: BlobRef | None = None


class ItemInputs(Struct, frozen=True, omit_defaults=True):
    """The input of one item of an array, besides its number.

    Variables take precedence over those of the task. Arguments replace those of the task; for a
    command or an image they replace the whole command line."""

    environment: Variables = {}
    arguments: Arguments | None = None


TaskSpec = ScriptSpec | FunctionSpec | CommandSpec | ContainerSpec


def check_texts(spec: TaskSpec) -> None:
    """Checks the texts of type ManyText. Raises InvalidInput."""
    match spec:
        case ScriptSpec():
            arguments = spec.arguments
        case CommandSpec() | ContainerSpec():
            arguments = spec.command
        case FunctionSpec():
            arguments = ()
    if "\0" in "".join((*arguments, *spec.environment.values())):
        raise InvalidInput("An argument or a variable contains a NUL character.", "Remove it.")


def kind_of(spec: TaskSpec) -> str:
    """As in `TaskKind`."""
    return str(spec.__struct_config__.tag)


def name_of(spec: TaskSpec) -> str:
    """The default name of a task."""
    match spec:
        case ScriptSpec():
            return spec.filename
        case FunctionSpec():
            return spec.name
        case CommandSpec():
            name = spec.command[0].rpartition("/")[2][:200]
            return replace_deceiving(name, "?") or "command"
        case ContainerSpec():
            return spec.image[:200]


def blobs_of(spec: TaskSpec) -> tuple[BlobRef, ...]:
    """All blobs that it names; the account must own or have access to each."""
    values = (spec.code, spec.inputs) if isinstance(spec, FunctionSpec) else (spec.inputs,)
    named = [value.blob for value in values if value is not None and value.blob is not None]
    single = [blob for blob in (spec.folder, stdin_of(spec)) if blob is not None]
    return (*named, *single, *(file.blob for file in spec.files))


def stdin_of(spec: TaskSpec) -> BlobRef | None:
    """A function has none: its arguments are its input."""
    return None if isinstance(spec, FunctionSpec) else spec.stdin
