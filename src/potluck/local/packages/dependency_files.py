"""Dependencies from the files of a project: pylock.toml, uv.lock, pyproject.toml, requirements.txt.

Only names, versions and markers are taken. Where packages come from is the choice of the node's
owner, so addresses, paths and options are refused.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from msgspec import Struct

from potluck.local.packages.uv_lock import UvLockError, locked_requirements
from potluck.model.error import InvalidInput

# Of a project folder, the best description first.
_FOUND_IN_FOLDERS: Final = ("pylock.toml", "uv.lock", "pyproject.toml", "requirements.txt")
_MOST_BYTES: Final = 8 * 2**20
_MOST_INCLUDES: Final = 20
_INDEX_HINT: Final = "The owner of a node chooses the package index; remove the line."


class ProjectDependencies(Struct, frozen=True):
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None


def find_dependency_file(folder: Path) -> Path | None:
    """The file of a folder that says what it needs, if there is one."""
    for name in _FOUND_IN_FOLDERS:
        path = folder / name
        if path.is_file() and (name != "pyproject.toml" or _has_project(path)):
            return path
    return None


def read_dependency_file(path: Path) -> ProjectDependencies:
    """Chooses the format by the file's name. Raises InvalidInput."""
    if path.name == "uv.lock":
        return _from_uv_lock(path)
    if path.name == "pylock.toml" or re.fullmatch(r"pylock\.[^.]+\.toml", path.name):
        return _from_pylock(path)
    if path.name == "pyproject.toml":
        return _from_pyproject(path)
    return ProjectDependencies(tuple(_from_requirements(path, [])))


def _from_uv_lock(path: Path) -> ProjectDependencies:
    table = _read_table(path)
    try:
        return ProjectDependencies(locked_requirements(table), _text(table, "requires-python"))
    except UvLockError as error:
        _refuse(path, str(error), "Lock it again with uv, or use --requirements with another file.")


def _from_pylock(path: Path) -> ProjectDependencies:
    """PEP 751."""
    table = _read_table(path)
    packages = table.get("packages", [])
    if not isinstance(packages, list) or not all(isinstance(package, dict) for package in packages):
        _refuse(path, "it has no list of packages", "See https://peps.python.org/pep-0751/.")
    return ProjectDependencies(
        tuple(_pinned(path, package) for package in packages if not _is_project(package)),
        _text(table, "requires-python"),
    )


def _is_project(package: dict[str, Any]) -> bool:
    """The project itself, whose files travel with --folder."""
    directory = package.get("directory")
    return isinstance(directory, dict) and directory.get("path") in (".", "./")


def _pinned(path: Path, package: dict[str, Any]) -> str:
    name, version, marker = (package.get(key) for key in ("name", "version", "marker"))
    elsewhere = next((key for key in ("vcs", "directory", "archive") if key in package), None)
    if elsewhere is not None:
        _refuse(path, f"{name} does not come from a package index ({elsewhere})", _PLAIN_HINT)
    if not isinstance(name, str) or not isinstance(version, str):
        _refuse(path, f"a package has no name or version: {name!r} {version!r}", _PLAIN_HINT)
    return f"{name}=={version}" + (f" ; {marker}" if isinstance(marker, str) else "")


_PLAIN_HINT: Final = "Nodes install packages by name and version only."


def _from_pyproject(path: Path) -> ProjectDependencies:
    project = _read_table(path).get("project", {})
    wanted = project.get("dependencies", []) if isinstance(project, dict) else None
    if not isinstance(wanted, list) or not all(
        isinstance(requirement, str) for requirement in wanted
    ):
        _refuse(path, "`project.dependencies` must be a list of texts", "Correct it.")
    if "dependencies" in project.get("dynamic", ()):
        _refuse(path, "its dependencies are dynamic", "List them in --requirements FILE.")
    return ProjectDependencies(tuple(wanted), _text(project, "requires-python"))


def _has_project(path: Path) -> bool:
    """Many a pyproject.toml only configures tools."""
    project = _read_table(path).get("project")
    return isinstance(project, dict) and "dependencies" in project


def _from_requirements(path: Path, included: list[Path]) -> Iterator[str]:
    if len(included) >= _MOST_INCLUDES:
        _refuse(path, f"more than {_MOST_INCLUDES} files include each other", "Merge them.")
    included.append(path)
    for line in _logical_lines(_read(path)):
        include = re.fullmatch(r"(?:-r|--requirement)[ =]*(.+)", line)
        if include:
            yield from _from_requirements(path.parent / include[1].strip(), included)
        elif re.match("-e|--editable", line):
            problem = f"the option {line.split()[0]} is not supported"
            _refuse(path, problem, "Send your own modules with --folder, and remove the line.")
        elif line.startswith("-"):
            _refuse(path, f"the option {line.split()[0]} is not supported", _INDEX_HINT)
        else:
            yield line


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments, continuations and the hashes that pip-compile adds."""
    for line in text.replace("\\\n", " ").splitlines():
        plain = re.sub(r"(^|\s)#.*$", "", line)
        plain = re.sub(r"\s--hash[ =]\S+", "", plain).strip()
        if plain:
            yield plain


def _read_table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except (ValueError, RecursionError) as error:
        _refuse(path, f"it is not valid TOML: {str(error).rstrip('.')}", "Correct it.")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            _refuse(path, f"it is larger than {_MOST_BYTES // 2**20} MiB", "Name another file.")
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        _refuse(path, error.strerror or str(error), "Check its name and its permissions.")
    except UnicodeDecodeError:
        _refuse(path, "it is not valid UTF-8", "Save it as UTF-8, or name another file.")


def _text(table: dict[str, Any], key: str) -> str | None:
    value = table.get(key)
    return value if isinstance(value, str) else None


def _refuse(path: Path, problem: str, hint: str) -> NoReturn:
    raise InvalidInput(f"The dependencies in {path} cannot be used: {problem}.", hint) from None
