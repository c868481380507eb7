"""Reads and checks a script, and builds the spec of a task: script, command, image or template."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.local.packages.dependency_files import (
    ProjectDependencies,
    find_dependency_file,
    read_dependency_file,
)
from potluck.local.packages.script_dependencies import add_dependencies, has_block
from potluck.local.template import Template
from potluck.model.bounded_types import SOURCE_CHARACTERS
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.task_spec import CommandSpec, ContainerSpec, ScriptSpec

STDIN = "-"
Spec = ScriptSpec | CommandSpec | ContainerSpec


def read_script(path: str) -> tuple[str, str]:
    """Returns the name and the source; `-` is stdin."""
    name, content = ("stdin.py", _read_stdin()) if path == STDIN else _read_file(path)
    if len(content) > SOURCE_CHARACTERS:
        raise TooLarge(
            f"{path} is larger than the {SOURCE_CHARACTERS // 1024} KiB that a script may have.",
            "Move data out of the script.",
        )
    source = _decoded(content, path)
    _check_block(source)
    return name, source


def _read_file(path: str) -> tuple[str, bytes]:
    file = Path(path)
    try:
        if not file.is_file():
            raise InvalidInput(_not_a_file(file), "Name a Python file; `-` reads it from stdin.")
        with file.open("rb") as opened:
            return file.name, opened.read(SOURCE_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{path} cannot be read: {reason}.", "Check its name and its permissions."
        ) from error


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(SOURCE_CHARACTERS + 1)


def _not_a_file(file: Path) -> str:
    if file.is_dir():
        return f"{file} is a directory, not a script."
    if file.exists():
        return f"{file} is not a regular file."
    return f"There is no file {file}."


def _decoded(content: bytes, path: str) -> str:
    try:
        source = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not a Python script: byte {error.start} is not valid UTF-8.",
            "Save it as UTF-8, or name another file.",
        ) from error
    if "\0" in source:
        raise InvalidInput(
            f"{path} is not a Python script: it contains NUL bytes.", "Name another file."
        )
    if not source.strip():
        raise InvalidInput(f"{path} is empty.", "Name another file.")
    return source


def _check_block(source: str) -> None:
    """Reports an invalid PEP 723 block before the task waits for a device."""
    from potluck.model.script import read_metadata

    read_metadata(source)


class KindOptions(Struct, frozen=True):
    """The options that choose the kind of task; without any of them it is a script."""

    is_command: bool = False
    image: str | None = None
    template: Template | None = None
    parameters: Sequence[str] = ()


def build_spec(
    words: Sequence[str], kind: KindOptions, variables: dict[str, str], folder: Path | None
) -> tuple[Spec, Path | None]:
    """The spec without its files, and the folder to upload; refuses contradictory options."""
    options = {
        "--command": kind.is_command,
        "--image": kind.image is not None,
        "--template": kind.template is not None,
    }
    used = [option for option, is_used in options.items() if is_used]
    if len(used) > 1:
        raise InvalidInput(f"{' and '.join(used)} contradict each other.", "Use only one of them.")
    if kind.template is not None:
        parameters = parse_parameters(kind.parameters)
        return _from_template(kind.template, words, parameters, variables, folder)
    if kind.parameters:
        raise InvalidInput(
            "-p sets parameters of a template, but no template is named.",
            "Name it with --template; for a script, write its arguments after its name.",
        )
    if kind.image is not None:
        return ContainerSpec(kind.image, tuple(words), variables), folder
    if not words:
        raise InvalidInput(
            "There is nothing to run." if kind.is_command else "No script is named.",
            "Name one: `potluck run SCRIPT`, `potluck run --command PROGRAM`,"
            " `potluck run --image IMAGE` or `potluck run --template NAME`.",
        )
    if kind.is_command:
        return CommandSpec(tuple(words), variables), folder
    filename, source = read_script(words[0])
    filename = _path_in(folder, words[0]) or filename
    return ScriptSpec(filename, source, tuple(words[1:]), variables), folder


def _path_in(folder: Path | None, script: str) -> str | None:
    """The script's path in the uploaded folder, from whose top it is run."""
    if folder is None or script == STDIN:
        return None
    top, file = folder.resolve(), Path(script).resolve()
    return file.relative_to(top).as_posix() if file.is_relative_to(top) else None


def parse_parameters(pairs: Sequence[str]) -> dict[str, str]:
    """Parses `-p size=64`; refuses duplicate names."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(
                f"-p {printable(pair)!r} is not NAME=value.", "Write it like -p size=64."
            )
        if name in values:
            raise InvalidInput(f"-p {printable(name)} is given twice.", "Use only one of them.")
        values[name] = value
    return values


def _from_template(
    template: Template,
    words: Sequence[str],
    parameters: dict[str, str],
    variables: dict[str, str],
    folder: Path | None,
) -> tuple[Spec, Path | None]:
    if folder is not None:
        raise InvalidInput(
            "--folder cannot be used with a template, which has its own folder.",
            "Send single files with --file.",
        )
    about = template.about
    arguments = (*template.arguments(parameters), *words)
    own_folder = template.directory if template.has_files else None
    if about.image is not None:
        return ContainerSpec(about.image, (*about.command, *arguments), variables), own_folder
    if about.script is None:
        return CommandSpec((*about.command, *arguments), variables), own_folder
    filename, source = read_script(str(template.directory / about.script))
    return ScriptSpec(filename, source, arguments, variables), own_folder


def add_packages(spec: Spec, values: dict[str, Any], remarks: Pane) -> Spec:
    """A folder that is sent says what its scripts need, unless the script says so itself."""
    packages, file = values.get("dependencies", ()), values.get("requirements")
    if not isinstance(spec, ScriptSpec):
        if packages or file is not None:
            raise InvalidInput(
                "Packages are installed for scripts and functions only.",
                "Leave out --with and --requirements; an image brings its own packages.",
            )
        return spec
    folder = values.get("folder")
    if file is None and folder is not None and not has_block(spec.source):
        file = find_dependency_file(folder)
        if file is not None:
            remarks.prose(
                f"potluck: the packages of {printable(str(file))} are installed;"
                " --requirements names another file.",
                Tone.WAITING,
            )
    project = ProjectDependencies() if file is None else read_dependency_file(file)
    if not packages and project == ProjectDependencies():
        return spec
    source = add_dependencies(
        spec.source, (*packages, *project.dependencies), project.requires_python
    )
    return replace(spec, source=source)
