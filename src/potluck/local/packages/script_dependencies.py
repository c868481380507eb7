"""Adds dependencies to a script, in the PEP 723 block that servers and nodes of all versions read.

The new block is at the end of the source, so that line numbers in tracebacks stay right.
"""

from collections.abc import Sequence

from msgspec import json

from potluck.model.script import OPENING, check_dependencies, check_specifier, read_metadata


def has_block(source: str) -> bool:
    return any(map(_is_opening, source.split("\n")))


def _is_opening(line: str) -> bool:
    return line.rstrip("\r") == OPENING


def add_dependencies(
    source: str, dependencies: Sequence[str], requires_python: str | None = None
) -> str:
    """The source with a block that has its own needs and these. Raises InvalidInput."""
    own = read_metadata(source)
    wanted = check_dependencies([*own.dependencies, *dependencies])
    pythons = [specifier for specifier in (own.requires_python, requires_python) if specifier]
    lines = [OPENING]
    if pythons:
        python = check_specifier(",".join(pythons), "`requires-python`")
        lines.append(f"# requires-python = {_toml(python)}")
    lines += [
        "# dependencies = [",
        *(f"#   {_toml(requirement)}," for requirement in wanted),
        "# ]",
        "# ///",
        "",
    ]
    source_lines = [
        "# script, see the end" if _is_opening(line) else line for line in source.split("\n")
    ]
    changed = "\n".join([*source_lines, *([] if source.endswith("\n") else [""])]) + "\n".join(
        lines
    )
    read_metadata(changed)
    return changed


def _toml(text: str) -> str:
    """A basic string of TOML is written like one of JSON."""
    return json.encode(text).decode()
