"""Defaults from a project: `[tool.potluck]` of a script's own block, and of a pyproject.toml.

The nearest pyproject.toml up from the script counts, up to the top of its repository and not as far
as the home directory. One that belongs to another user of this machine is not read: a directory
above one's own may be anybody's.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.local.task_options import PAGE, OptionSource, read_option
from potluck.model.error import InvalidInput
from potluck.model.units import parse_credits

_FILE = "pyproject.toml"
_TABLE = "tool.potluck"
_TOPS = (".git", ".hg", ".svn", ".jj")
_MOST_BYTES = 2**20


class Default(Struct, frozen=True, omit_defaults=True):
    """A value for an option that nobody typed, and where it stands."""

    key: str
    value: Any
    where: str  # a file and a line, for people
    alias: str = ""  # an earlier name of the option, if the file says that


class _DefaultsPlace(Struct, frozen=True):
    """A place that says something."""

    kind: OptionSource
    path: str  # as people know it
    text: str  # to find the line in
    directory: Path

    def at(self, key: str) -> str:
        """The line, where the key stands on one of its own."""
        line = _line_of(self.text, key)
        return self.path if line is None else f"{self.path}, line {line}"


def project_defaults(script: Path | None, source: str | None, start: Path) -> list[Default]:
    """What the script says, and what the project says that it does not."""
    found = {} if source is None or script is None else _of_script(script, source)
    for key, default in _of_project(start).items():
        own = found.get(key)
        found[key] = default if own is None else _both(own, default)
    return list(found.values())


def _both(script: Default, project: Default) -> Default:
    """The script's word counts; but it adds its variables to the project's, where the last one of a
    name wins, and it may lower what the project is ready to pay, not raise it."""
    if script.key == "env":
        together = [*project.value, *script.value]
        return Default(script.key, together, f"{project.where}, and {script.where}")
    if script.key == "max-price":
        return min(script, project, key=lambda each: parse_credits(each.value, each.where))
    return script


def _of_script(script: Path, source: str) -> dict[str, Default]:
    from potluck.model.script import tool_table  # which knows of packages, and takes a moment

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
        raise InvalidInput(f"{file} is not valid TOML: {error}.", "Mend it.") from error
    return _read(table, _DefaultsPlace(OptionSource.PROJECT, str(_shown(file)), text, file.parent))


def nearest_project(start: Path) -> Path | None:
    """The file that counts for what lies here."""
    home = Path.home()
    directory = start.resolve()
    for each in (directory, *directory.parents):
        if each == home or each == each.parent:
            return None
        file = each / _FILE
        if file.is_file():
            return file if _is_ours(file) else None
        if any((each / top).exists() for top in _TOPS):
            return None
    return None


def _is_ours(file: Path) -> bool:
    """Mine, or the system's."""
    return not hasattr(os, "getuid") or file.stat().st_uid in (os.getuid(), 0)


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} can not be read: {error}.", "Mend it, or its owner.") from error


def _shown(file: Path) -> Path:
    """As short as it can be said from here."""
    try:
        return file.relative_to(Path.cwd().resolve())
    except ValueError:
        return file


def _read(table: Any, source: _DefaultsPlace) -> dict[str, Default]:
    if not isinstance(table, dict):
        raise InvalidInput(f"{source.path}: [{_TABLE}] is no table.", PAGE)
    found: dict[str, Default] = {}
    for said, value in table.items():
        default = _default(said, value, source)
        if default.key in found:
            raise InvalidInput(f"{source.at(said)}: {default.key} is said twice.", "Leave one out.")
        found[default.key] = default
    return found


def _default(said: str, value: Any, source: _DefaultsPlace) -> Default:
    where = source.at(said.replace("_", "-"))
    option, spelled = read_option(said, value, source.kind, where)
    if option.kind.is_path:
        spelled = _within(option.name, spelled, source)
    return Default(option.name, spelled, where, said if option.is_alias(said) else "")


def _within(key: str, spelled: Any, source: _DefaultsPlace) -> Any:
    if isinstance(spelled, list):
        return [_path(key, each, source) for each in spelled]
    return _path(key, spelled, source)


def _path(key: str, said: str, source: _DefaultsPlace) -> str:
    """Of the project, wherever one stands; of a file that has another name there, too."""
    name, colon, there = said.partition(":") if key == "file" else (said, "", "")
    path = source.directory / name
    if not path.resolve().is_relative_to(source.directory.resolve()):
        raise InvalidInput(
            f"{source.at(key)}: {key} leads out of the project: {said!r}.",
            f"Name something within {source.directory}, or type --{key}.",
        )
    return f"{os.path.relpath(path)}{colon}{there}"


def _line_of(text: str, key: str) -> int | None:
    """The first line behind the table's heading that begins with the key, in either spelling."""
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
