"""The packages that a uv.lock pins for its own project, without groups and extras of the project.

A lock is for every platform: a package that is reached only under a marker is required under it.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

_PROJECT_SOURCES: Final = ("editable", "virtual", "directory")
# Markers of one package: beyond it, it is simply required.
_MOST_MARKERS: Final = 4


class UvLockError(Exception):
    """The sentence says which package cannot be used."""


def locked_requirements(lock: dict[str, Any]) -> tuple[str, ...]:
    """Requirements such as `numpy==2.3.1 ; sys_platform == 'linux'`. Raises UvLockError."""
    packages = [package for package in lock.get("package", []) if isinstance(package, dict)]
    project = next((package for package in packages if _is_project(package)), None)
    if project is None:
        raise UvLockError("it has no project")
    markers = _reached(project, packages)
    return tuple(
        _requirement(packages[index], conditions) for index, conditions in sorted(markers.items())
    )


def _is_project(package: dict[str, Any]) -> bool:
    source = package.get("source", {})
    return any(source.get(kind) == "." for kind in _PROJECT_SOURCES)


def _reached(project: dict[str, Any], packages: list[dict[str, Any]]) -> dict[int, set[str]]:
    """The markers under which each package is needed, by its position; empty: always."""
    reached: dict[int, set[str]] = {}
    waiting = deque((dependency, "") for dependency in _dependencies(project, ()))
    while waiting:
        dependency, condition = waiting.popleft()
        index = _find(dependency, packages)
        marker = _both(condition, dependency.get("marker", ""))
        known_markers = reached.get(index)
        if known_markers is not None and (not known_markers or marker in known_markers):
            continue
        if not marker or (known_markers is not None and len(known_markers) >= _MOST_MARKERS):
            reached[index] = set()
        else:
            reached.setdefault(index, set()).add(marker)
        extras = tuple(dependency.get("extra", ()))
        waiting += [(dependency, marker) for dependency in _dependencies(packages[index], extras)]
    return reached


def _dependencies(package: dict[str, Any], extras: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    yield from package.get("dependencies", [])
    for extra in extras:
        yield from package.get("optional-dependencies", {}).get(extra, [])


def _find(dependency: dict[str, Any], packages: list[dict[str, Any]]) -> int:
    """A dependency names the version where the lock has several."""
    for index, package in enumerate(packages):
        if package.get("name") == dependency.get("name") and (
            dependency.get("version") in (None, package.get("version"))
        ):
            return index
    raise UvLockError(f"it requires {dependency.get('name')}, which it does not list")


def _both(first: str, second: str) -> str:
    if not first or not second or first == second:
        return first or second
    return f"({first}) and ({second})"


def _requirement(package: dict[str, Any], markers: set[str]) -> str:
    name, version, source = (package.get(key) for key in ("name", "version", "source"))
    if not isinstance(source, dict) or "registry" not in source:
        raise UvLockError(f"{name} does not come from a package index")
    marker = " or ".join(f"({condition})" for condition in sorted(markers))
    return f"{name}=={version}" + (f" ; {marker}" if marker else "")
