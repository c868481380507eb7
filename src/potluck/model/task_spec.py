"""What a task is made of, one kind a class."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.blob import MOST_INPUT_FILES, BlobRef, NamedFile, Value
from potluck.model.bounded_types import (
    END,
    ArgumentText,
    ShortText,
    SourceText,
    VariableName,
)

Arguments = Annotated[tuple[ArgumentText, ...], Meta(max_length=1024)]
Variables = Annotated[dict[VariableName, ArgumentText], Meta(max_length=256)]
InputFiles = Annotated[tuple[NamedFile, ...], Meta(max_length=MOST_INPUT_FILES)]
ImageText = Annotated[
    str, Meta(min_length=1, max_length=500, pattern=f"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*{END}")
]


class ScriptSpec(Struct, frozen=True, tag_field="kind", tag="script"):
    """A Python file, with the dependencies that its PEP 723 block names."""

    filename: ShortText
    source: SourceText
    arguments: Arguments = ()
    environment: Variables = {}
    folder: BlobRef | None = None  # an archive, unpacked where the task works
    files: InputFiles = ()  # shown there, and not to be written to
    inputs: Value | None = None  # of an array: an item file of `ItemInputs`, as JSON


class FunctionSpec(Struct, frozen=True, tag_field="kind", tag="function"):
    """A Python function, pickled by its owner and unpickled in the sandbox, nowhere else.

    Of an array, `inputs` has the arguments of each item (see wire/item_file.py), else those of the
    one call.
    """

    name: ShortText
    code: Value
    inputs: Value
    python: Annotated[str, Meta(pattern=f"^3\\.[0-9]{{1,3}}{END}")]  # that pickled it
    dependencies: Annotated[tuple[ShortText, ...], Meta(max_length=256)] = ()
    environment: Variables = {}
    folder: BlobRef | None = None
    files: InputFiles = ()
    pickles_results: bool = False  # instead of plain data; its owner will not open a stranger's


class CommandSpec(Struct, frozen=True, tag_field="kind", tag="command"):
    """A program of the node's system, or one that came along, with its arguments."""

    command: Annotated[tuple[ArgumentText, ...], Meta(min_length=1, max_length=1024)]
    environment: Variables = {}
    folder: BlobRef | None = None
    files: InputFiles = ()
    inputs: Value | None = None


class ContainerSpec(Struct, frozen=True, tag_field="kind", tag="container"):
    """An image, with the command that it is to run if not its own."""

    image: ImageText
    command: Arguments = ()
    environment: Variables = {}
    folder: BlobRef | None = None
    files: InputFiles = ()
    inputs: Value | None = None


TaskSpec = ScriptSpec | FunctionSpec | CommandSpec | ContainerSpec


def kind_of(spec: TaskSpec) -> str:
    """As `TaskKind` spells it."""
    return str(spec.__struct_config__.tag)


def name_of(spec: TaskSpec) -> str:
    """What a task is called whose owner gave it no name."""
    match spec:
        case ScriptSpec():
            return spec.filename
        case FunctionSpec():
            return spec.name
        case CommandSpec():
            return spec.command[0].rpartition("/")[2][:200] or "command"
        case ContainerSpec():
            return spec.image[:200]


def blobs_of(spec: TaskSpec) -> tuple[BlobRef, ...]:
    """All that it names; its owner must have uploaded each of them, or been given it."""
    values = (spec.code, spec.inputs) if isinstance(spec, FunctionSpec) else (spec.inputs,)
    named = [value.blob for value in values if value is not None and value.blob is not None]
    folder = [] if spec.folder is None else [spec.folder]
    return (*named, *folder, *(file.blob for file in spec.files))
