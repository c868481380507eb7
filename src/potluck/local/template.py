"""Templates: ready tasks in a folder with a `template.toml`, chosen by name, with parameters.

    summary = "Multiplies two matrices."
    script = "multiply.py"          # or command = ["./run.sh"], or image = "busybox"

    [options]                       # defaults for those of `potluck run`
    ram = "2GiB"

    [parameters.size]               # reaches the script as --size=1024
    help = "Rows and columns."
    default = 1024

The user's own templates are in `templates` in the configuration directory and take precedence over
those of Potluck; any other folder is given by its path.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from potluck.local.data_directory import config_directory
from potluck.local.task_options import OptionSource, alias_hint, read_option
from potluck.model.bounded_types import END, ArgumentText, LineText, ShortText
from potluck.model.error import InvalidInput, NotFound, PotluckError
from potluck.model.task_spec import Arguments, ImageText

ParameterName = Annotated[str, Meta(max_length=64, pattern=f"^[a-z][a-z0-9-]*{END}")]
ParameterValue = int | float | ArgumentText
FILE = "template.toml"
BUILT_IN = Path(__file__).parents[1] / "templates"


class Parameter(Struct, frozen=True, forbid_unknown_fields=True):
    help: LineText = ""
    default: ParameterValue | None = None  # None: a text that must be given
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[ArgumentText, ...] = ()

    def read(self, name: str, text: str | None) -> ParameterValue:
        """The given value, converted and checked; the default if there is none."""
        if text is None and self.default is None:
            raise InvalidInput(
                f"The parameter {name} must be given.", f"Give it with -p {name}={self.shape}."
            )
        value = self.default if text is None else self._parsed(name, text)
        assert value is not None
        if self.choices and value not in self.choices:
            raise InvalidInput(f"-p {name}={value} is not a choice.", f"Choose {self.range}.")
        if isinstance(value, int | float) and not self._is_within(value):
            raise InvalidInput(f"-p {name}={value} is out of range.", f"Use {self.range}.")
        return value

    @property
    def shape(self) -> str:
        """Its type in one word, for display."""
        if isinstance(self.default, int):
            return "INTEGER"
        return "NUMBER" if isinstance(self.default, float) else "TEXT"

    @property
    def range(self) -> str:
        """The allowed values; empty if there is no limit."""
        if self.choices:
            return " or ".join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f"{self.minimum:,} to {self.maximum:,}"
        if self.minimum is not None:
            return f"at least {self.minimum:,}"
        return "" if self.maximum is None else f"at most {self.maximum:,}"

    def check(self, name: str, file: Path) -> None:
        """Raises for an invalid default, which is a mistake in the template."""
        if self.default is None:
            return
        try:
            self.read(name, None)
        except InvalidInput as error:
            raise InvalidInput(
                f"{file} is invalid: the default of {name}: {error.detail}", error.hint
            ) from error

    def _parsed(self, name: str, text: str) -> ParameterValue:
        if isinstance(self.default, str) or self.default is None:
            return text
        kind = type(self.default)
        try:
            return kind(text)
        except ValueError as error:
            what = "a whole number" if kind is int else "a number"
            raise InvalidInput(
                f"-p {name}={text} is not {what}.", f"Write it like -p {name}={self.default}."
            ) from error

    def _is_within(self, value: int | float) -> bool:
        least = value if self.minimum is None else self.minimum
        most = value if self.maximum is None else self.maximum
        return least <= value <= most  # false for NaN


class About(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `template.toml`, with exactly one of script, command and image."""

    summary: LineText
    script: ShortText | None = None
    command: Arguments = ()
    image: ImageText | None = None
    options: dict[str, Any] = {}  # as they would be typed, by their names
    parameters: Annotated[dict[ParameterName, Parameter], Meta(max_length=100)] = {}


class Template(Struct, frozen=True):
    name: str
    directory: Path
    about: About
    hints: tuple[str, ...] = ()  # for its author

    @property
    def has_files(self) -> bool:
        """Whether there are files to send besides the script."""
        others = {FILE, self.about.script, "__pycache__"}
        return any(path.name not in others for path in self.directory.iterdir())

    def arguments(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The script's arguments for all parameters, with defaults for those that are not given."""
        for name in values:
            if name not in self.about.parameters:
                raise InvalidInput(
                    f"{self.name} has no parameter {name!r}.",
                    f"{self._known()} `potluck templates {self.name}` describes them.",
                )
        return tuple(
            f"--{name}={parameter.read(name, values.get(name))}"
            for name, parameter in self.about.parameters.items()
        )

    def _known(self) -> str:
        names = ", ".join(self.about.parameters)
        return f"It has {names}." if names else "It has none."


def own_templates() -> Path:
    return config_directory() / "templates"


def find_template(named: str) -> Template:
    """The template with this name, or in this folder: a name with a slash is a path."""
    if "/" in named or "\\" in named or named in (".", ".."):
        return _read(Path(named).expanduser())
    for directory in (own_templates(), BUILT_IN):
        if named and (directory / named / FILE).is_file():
            return _read(directory / named)
    raise NotFound(
        f"There is no template {named!r}.",
        f"`potluck templates` lists them. Put your own into {own_templates()}, or give its path,"
        f" such as ./{named or 'mine'}.",
    )


def all_templates() -> Iterator[Template | PotluckError]:
    """All templates, sorted by name; an error for each invalid one."""
    directories = {
        file.parent.name: file.parent
        for parent in (BUILT_IN, own_templates())
        for file in parent.glob(f"*/{FILE}")
    }
    for name in sorted(directories):
        try:
            yield _read(directories[name])
        except PotluckError as error:
            yield error


def built_in_templates() -> list[Template]:
    """Those of Potluck itself, sorted by name."""
    return [_read(file.parent) for file in sorted(BUILT_IN.glob(f"*/{FILE}"))]


def _read(directory: Path) -> Template:
    file = directory / FILE
    try:
        about = msgspec.convert(tomllib.loads(file.read_text("utf-8")), About)
    except OSError as error:
        raise InvalidInput(
            f"{directory} is not a template: {file} cannot be read: {error.strerror}.",
            "A template is a folder with a template.toml; `potluck templates hello` names one.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise _wrong(file, str(error).replace("`", "'")) from error
    for name, parameter in about.parameters.items():
        parameter.check(name, file)
    kinds = [about.script, about.image, None if about.image else about.command or None]
    if sum(kind is not None for kind in kinds) != 1:
        raise _wrong(file, "it needs one of script, command and image")
    options, hints = _options(about.options, file)
    about = replace(about, options=options)
    template = Template(directory.resolve().name, directory.resolve(), about, hints)
    if about.script is not None:
        _check_script(template.directory, about.script, file)
    return template


def _options(table: Mapping[str, Any], file: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options as they would be typed, and hints about earlier names."""
    options: dict[str, Any] = {}
    hints = []
    for key, value in table.items():
        where = f"{file} is invalid: [options]"
        option, spelled = read_option(key, value, OptionSource.TEMPLATE, where)
        options[option.name] = spelled
        if option.is_alias(key):
            hints.append(f"{file}: {alias_hint(key, option.name)}")
    return options, tuple(hints)


def _check_script(directory: Path, script: str, file: Path) -> None:
    """The template's author chooses the file that is sent, so it has to be in the template."""
    try:
        path = (directory / script).resolve()
        is_file = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # an invalid name, or a loop of links
        raise _wrong(file, f"script = {script!r} cannot be read") from error
    if not path.is_relative_to(directory):
        raise _wrong(file, f"script = {script!r} is outside the folder")
    if not is_file:
        raise _wrong(file, f"script = {script!r} is not a file in the folder")


def _wrong(file: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{file} is invalid: {why}.", "`potluck templates hello` names the folder of a valid one."
    )
