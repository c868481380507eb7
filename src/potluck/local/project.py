"""Defaults from a project: `[tool.potluck]` of a script's own block, and of a pyproject.toml.

The nearest pyproject.toml up from the script counts, up to the top of its repository and not as far
as the home directory. One that belongs to another user of this machine is not read: a directory
above one's own may be anybody's.
"""

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.local.defaults import KEYS, MEANT, ONLY_TYPED, PATHS, Place
from potluck.model.error import InvalidInput
from potluck.model.units import parse_credits

_FILE = "pyproject.toml"
_TABLE = "tool.potluck"
_TOPS = (".git", ".hg", ".svn", ".jj")
_MOST_BYTES = 2**20
_HINT = "docs/tasks.md lists what [tool.potluck] may say."


class Default(Struct, frozen=True):
    """A value for an option that nobody typed, and where it stands."""

    key: str
    value: Any
    where: str  # a file and a line, for people


class _Source(Struct, frozen=True):
    """A place that says something."""

    place: Place
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
    return _read(table, _Source(Place.SCRIPT, script.name, source, script.parent))


def _of_project(start: Path) -> dict[str, Default]:
    file = nearest_project(start)
    if file is None:
        return {}
    text = _text_of(file)
    try:
        table = tomllib.loads(text).get("tool", {}).get("potluck", {})
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"{file} is not valid TOML: {error}.", "Mend it.") from error
    return _read(table, _Source(Place.PROJECT, str(_shown(file)), text, file.parent))


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


def _read(table: Any, source: _Source) -> dict[str, Default]:
    if not isinstance(table, dict):
        raise InvalidInput(f"{source.path}: [{_TABLE}] is no table.", _HINT)
    return {key: _default(key, value, source) for key, value in _named(table, source).items()}


def _named(table: dict[str, Any], source: _Source) -> dict[str, Any]:
    """By the names of options: `max_price` is `max-price`."""
    found: dict[str, Any] = {}
    for said, value in table.items():
        key = said.replace("_", "-")
        if key in found:
            raise InvalidInput(f"{source.at(said)}: {key} is said twice.", "Leave one out.")
        found[key] = value
    return found


def _default(key: str, value: Any, source: _Source) -> Default:
    where = source.at(key)
    if key in ONLY_TYPED:
        raise InvalidInput(
            f"{where}: {key} is not taken from a file.",
            f"Type it: --{key}. Who may have a secret is said each time.",
        )
    if key not in KEYS:
        raise InvalidInput(f"{where}: there is no option {key!r}.", _nearest(key))
    if source.place is Place.SCRIPT and not KEYS[key].in_script:
        raise InvalidInput(
            f"{where}: a script can not say {key}, since scripts are often somebody else's.",
            f"Type --{key}, or put it into the [{_TABLE}] of your {_FILE}.",
        )
    read = KEYS[key].read(value, f"{where}: {key}")
    return Default(key, _within(key, read, source) if key in PATHS else read, where)


def _nearest(key: str) -> str:
    near = MEANT.get(key) or next(iter(difflib.get_close_matches(key, KEYS, 1)), None)
    return f"Did you mean {near}? {_HINT}" if near else _HINT


def _within(key: str, read: Any, source: _Source) -> Any:
    if isinstance(read, list):
        return [_path(key, each, source) for each in read]
    return _path(key, read, source)


def _path(key: str, said: str, source: _Source) -> str:
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
