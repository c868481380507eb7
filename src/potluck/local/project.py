"""Project defaults: `[tool.potluck]` in a script's own block and in a pyproject.toml.

The nearest pyproject.toml above the script counts, up to the top of its repository and below the
home directory. A file of another user is not read: a parent directory may be theirs.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.local.task_options import LISTED, OptionSource, read_option
from potluck.model.error import InvalidInput
from potluck.model.units import parse_credits

_FILE = "pyproject.toml"
_TABLE = "tool.potluck"
_TOPS = (".git", ".hg", ".svn", ".jj")
_MOST_BYTES = 2**20


class Default(Struct, frozen=True, omit_defaults=True):
    """A value for an option that was not typed, and its source."""

    key: str
    value: Any
    where: str  # a file and a line, for people
    alias: str = ""  # the earlier name of the option, if the file uses it


class _DefaultsPlace(Struct, frozen=True):
    """A file with defaults."""

    kind: OptionSource
    path: str  # for display
    text: str  # to find the line of a key
    directory: Path

    def at(self, key: str) -> str:
        """The path, with the line of the key if it is found."""
        line = _line_of(self.text, key)
        return self.path if line is None else f"{self.path}, line {line}"


def project_defaults(script: Path | None, source: str | None, start: Path) -> list[Default]:
    """The defaults of the script, merged with those of the project."""
    defaults = {} if source is None or script is None else _of_script(script, source)
    for key, default in _of_project(start).items():
        own = defaults.get(key)
        defaults[key] = default if own is None else _merged(own, default)
    return list(defaults.values())


def _merged(script: Default, project: Default) -> Default:
    """The script's value counts; but its variables are added to the project's, and it may lower the
    project's maximum price, not raise it."""
    if script.key == "env":
        variables = [*project.value, *script.value]
        return Default(script.key, variables, f"{project.where}, and {script.where}")
    if script.key == "max-price":
        return min(script, project, key=lambda price: parse_credits(price.value, price.where))
    return script


def _of_script(script: Path, source: str) -> dict[str, Default]:
    from potluck.model.script import tool_table  # slow to import

    table = tool_table(source)
    return _read(table, _DefaultsPlace(OptionSource.SCRIPT, script.name, source, script.parent))


def _of_project(start: Path) -> dict[str, Default]:
    file = nearest_project(start)
    if file is None:
        return {}
    text = _text_of(file)
    try:
        table = tomllib.loads(text).get("tool", {}).get("potluck", {})
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"{file} is not valid TOML: {error}.", "Correct it.") from error
    return _read(table, _DefaultsPlace(OptionSource.PROJECT, str(_shown(file)), text, file.parent))


def nearest_project(start: Path) -> Path | None:
    """The pyproject.toml that counts for this directory."""
    home = Path.home()
    resolved = start.resolve()
    for directory in (resolved, *resolved.parents):
        if directory == home or directory == directory.parent:
            return None
        file = directory / _FILE
        if file.is_file():
            return file if _is_ours(file) else None
        if any((directory / top).exists() for top in _TOPS):
            return None
    return None


def _is_ours(file: Path) -> bool:
    """Whether it belongs to this user or to root."""
    return not hasattr(os, "getuid") or file.stat().st_uid in (os.getuid(), 0)


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{file} cannot be read: {error}.", "Correct it, or its permissions."
        ) from error


def _shown(file: Path) -> Path:
    """Relative to the current directory, if possible."""
    try:
        return file.relative_to(Path.cwd().resolve())
    except ValueError:
        return file


def _read(table: Any, source: _DefaultsPlace) -> dict[str, Default]:
    if not isinstance(table, dict):
        raise InvalidInput(f"{source.path}: [{_TABLE}] is not a table.", LISTED)
    defaults: dict[str, Default] = {}
    for key, value in table.items():
        default = _default(key, value, source)
        if default.key in defaults:
            raise InvalidInput(f"{source.at(key)}: {default.key} is set twice.", "Remove one.")
        defaults[default.key] = default
    return defaults


def _default(key: str, value: Any, source: _DefaultsPlace) -> Default:
    where = source.at(key.replace("_", "-"))
    option, spelled = read_option(key, value, source.kind, where)
    if option.kind.is_path:
        spelled = _within(option.name, spelled, source)
    return Default(option.name, spelled, where, key if option.is_alias(key) else "")


def _within(key: str, spelled: Any, source: _DefaultsPlace) -> Any:
    if isinstance(spelled, list):
        return [_path(key, path, source) for path in spelled]
    return _path(key, spelled, source)


def _path(key: str, value: str, source: _DefaultsPlace) -> str:
    """A path in the project, relative to the current directory; with its name for the task."""
    name, colon, task_name = value.partition(":") if key == "file" else (value, "", "")
    path = source.directory / name
    if not path.resolve().is_relative_to(source.directory.resolve()):
        raise InvalidInput(
            f"{source.at(key)}: {key} is outside the project: {value!r}.",
            f"Choose a path within {source.directory}, or type --{key}.",
        )
    return f"{os.path.relpath(path)}{colon}{task_name}"


def _line_of(text: str, key: str) -> int | None:
    """The first line after the table's heading that begins with the key, in either spelling."""
    spelled = "[-_]".join(map(re.escape, re.split("[-_]", key)))
    begins = re.compile(rf"(#\s*)?[\"']?{spelled}[\"']?\s*=")
    is_inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.lstrip("# ").strip()
        if plain.startswith("["):
            is_inside = plain.startswith((f"[{_TABLE}]", f"[{_TABLE}.{key}]"))
            if plain.startswith(f"[{_TABLE}.{key}]"):
                return number
        elif is_inside and begins.match(line.strip()):
            return number
    return None
