"""Ready tasks: a folder with a `template.toml`, picked by name and given parameters.

    summary = "Multiplies two matrices."
    script = "multiply.py"          # or command = ["./run.sh"], or image = "busybox"

    [options]                       # as `potluck run` has them; whoever runs it may say otherwise
    ram = "2GiB"

    [parameters.size]               # reaches the script as --size=1024
    help = "Rows and columns."
    default = 1024

Templates of one's own lie in `templates` in the configuration directory and go before those that
come with Potluck; any other folder is named by its path.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from potluck.local.data_directory import config_directory
from potluck.local.template_options import TemplateOptions
from potluck.local.template_parameter import Parameter, ParameterName
from potluck.model.bounded_types import LineText, ShortText
from potluck.model.error import InvalidInput, NotFound, PotluckError
from potluck.model.task_spec import Arguments, ImageText

FILE = "template.toml"
BUILT_IN = Path(__file__).parents[1] / "templates"


class About(Struct, frozen=True, forbid_unknown_fields=True):
    """What `template.toml` says. One of script, command and image is there."""

    summary: LineText
    script: ShortText | None = None
    command: Arguments = ()
    image: ImageText | None = None
    options: TemplateOptions = TemplateOptions()
    parameters: Annotated[dict[ParameterName, Parameter], Meta(max_length=100)] = {}


class Template(Struct, frozen=True):
    name: str
    directory: Path
    about: About

    @property
    def has_files(self) -> bool:
        """Whether there is anything to send along besides the script."""
        known = {FILE, self.about.script, "__pycache__"}
        return any(each.name not in known for each in self.directory.iterdir())

    def arguments(self, given: Mapping[str, str]) -> tuple[str, ...]:
        """All parameters as the script is given them, those that were not said too."""
        for name in given:
            if name not in self.about.parameters:
                raise InvalidInput(
                    f"{self.name} has no parameter {name!r}.",
                    f"{self._known()} `potluck templates {self.name}` tells about them.",
                )
        return tuple(
            f"--{name}={parameter.read(name, given.get(name))}"
            for name, parameter in self.about.parameters.items()
        )

    def _known(self) -> str:
        known = ", ".join(self.about.parameters)
        return f"It has {known}." if known else "It has none."


def own_templates() -> Path:
    return config_directory() / "templates"


def template(named: str) -> Template:
    """The one of this name, or in this folder: whatever has a slash in it is a path."""
    if "/" in named or "\\" in named or named in (".", ".."):
        return _read(Path(named).expanduser())
    for place in (own_templates(), BUILT_IN):
        if named and (place / named / FILE).is_file():
            return _read(place / named)
    raise NotFound(
        f"There is no template {named!r}.",
        f"`potluck templates` lists them; one of your own is a folder in {own_templates()},"
        f" or named by its path, such as ./{named or 'mine'}.",
    )


def all_templates() -> Iterator[Template | PotluckError]:
    """In the order of their names; of one that can not be used, why."""
    found = {
        each.parent.name: each.parent
        for place in (BUILT_IN, own_templates())
        for each in place.glob(f"*/{FILE}")
    }
    for name in sorted(found):
        try:
            yield _read(found[name])
        except PotluckError as error:
            yield error


def _read(directory: Path) -> Template:
    file = directory / FILE
    try:
        about = msgspec.convert(tomllib.loads(file.read_text("utf-8")), About)
    except OSError as error:
        raise InvalidInput(
            f"{directory} is no template: {file} can not be read: {error.strerror}.",
            "A template is a folder with a template.toml; docs/templates.md shows one.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise _wrong(file, str(error).replace("`", "'")) from error
    for name, parameter in about.parameters.items():
        parameter.check(name, file)
    kinds = [about.script, about.image, None if about.image else about.command or None]
    if sum(kind is not None for kind in kinds) != 1:
        raise _wrong(file, "it needs one of script, command and image")
    found = Template(directory.resolve().name, directory.resolve(), about)
    if about.script is not None:
        _check_script(found.directory, about.script, file)
    return found


def _check_script(directory: Path, script: str, file: Path) -> None:
    """Whoever wrote the template says which file is sent, so it is one of the template's own."""
    try:
        place = (directory / script).resolve()
        is_file = place.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # no name of a file, links in a ring
        raise _wrong(file, f"script = {script!r} can not be read") from error
    if not place.is_relative_to(directory):
        raise _wrong(file, f"script = {script!r} leads out of the folder")
    if not is_file:
        raise _wrong(file, f"script = {script!r} is no file of the folder")


def _wrong(file: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{file} is wrong: {why}.", "docs/templates.md shows what can be in it.")
