"""What is to be run, from what somebody typed: a script, a command, an image or a template."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from potluck.cli.request.script import STDIN, read_script
from potluck.cli.terminal.screen import printable
from potluck.local.template import Template
from potluck.model.error import InvalidInput
from potluck.model.task_spec import CommandSpec, ContainerSpec, ScriptSpec

Spec = ScriptSpec | CommandSpec | ContainerSpec


class RequestedSpec(Struct, frozen=True):
    """A spec without its files, and the folder that goes along."""

    spec: Spec
    folder: Path | None = None


class Way(Struct, frozen=True):
    """How the words behind the options are to be read: as a script's, unless one of these."""

    is_command: bool = False
    image: str | None = None
    template: Template | None = None
    parameters: Sequence[str] = ()


def asked_for(
    words: Sequence[str], way: Way, variables: dict[str, str], folder: Path | None
) -> RequestedSpec:
    """The kind that was meant; what contradicts itself is refused."""
    named = {
        "--command": way.is_command,
        "--image": way.image is not None,
        "--template": way.template is not None,
    }
    said = [option for option, is_said in named.items() if is_said]
    if len(said) > 1:
        raise InvalidInput(f"{' and '.join(said)} contradict each other.", "Leave one of them out.")
    if way.template is not None:
        return _from_template(way.template, words, parsed(way.parameters), variables, folder)
    if way.parameters:
        raise InvalidInput(
            "-p is for the parameters of a template, and none is named.",
            "Name it with --template; for a script, write its arguments behind its name.",
        )
    if way.image is not None:
        return RequestedSpec(ContainerSpec(way.image, tuple(words), variables), folder)
    if not words:
        raise InvalidInput(
            "There is nothing to run." if way.is_command else "No script is named.",
            "Name one: `potluck run SCRIPT`, `potluck run --command PROGRAM`,"
            " `potluck run --image IMAGE` or `potluck run --template NAME`.",
        )
    if way.is_command:
        return RequestedSpec(CommandSpec(tuple(words), variables), folder)
    filename, source = read_script(words[0])
    filename = _place_in(folder, words[0]) or filename
    return RequestedSpec(ScriptSpec(filename, source, tuple(words[1:]), variables), folder)


def _place_in(folder: Path | None, script: str) -> str | None:
    """Where the script lies in the folder that goes along: there it is run, from the top of it."""
    if folder is None or script == STDIN:
        return None
    top, file = folder.resolve(), Path(script).resolve()
    return file.relative_to(top).as_posix() if file.is_relative_to(top) else None


def parsed(pairs: Sequence[str]) -> dict[str, str]:
    """`-p size=64`, as often as needed, each name once."""
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(
                f"-p {printable(pair)!r} is not NAME=value.", "Write it like -p size=64."
            )
        if name in given:
            raise InvalidInput(f"-p {printable(name)} is said twice.", "Leave one of them out.")
        given[name] = value
    return given


def _from_template(
    template: Template,
    words: Sequence[str],
    given: dict[str, str],
    variables: dict[str, str],
    folder: Path | None,
) -> RequestedSpec:
    if folder is not None:
        raise InvalidInput(
            "A template brings its own folder, and --folder names another.",
            "Send single files along with --file.",
        )
    about = template.about
    arguments = (*template.arguments(given), *words)
    own = template.directory if template.has_files else None
    if about.image is not None:
        return RequestedSpec(
            ContainerSpec(about.image, (*about.command, *arguments), variables), own
        )
    if about.script is None:
        return RequestedSpec(CommandSpec((*about.command, *arguments), variables), own)
    filename, source = read_script(str(template.directory / about.script))
    return RequestedSpec(ScriptSpec(filename, source, arguments, variables), own)
