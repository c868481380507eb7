"""Messages name commands and pages of the server: an installed package has no `docs/`."""

import ast
import re

from potluck.cli.command_groups import GROUPS
from potluck.cli.commands import ALIASES, COMMANDS
from scripts.sentences import SOURCE, sentences
from tests.architecture.repository_files import ROOT


def test_no_message_names_a_page_of_the_repository() -> None:
    shown = (
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in sentences(path)
        if "docs/" in text and not _is_docstring(path.read_text(), line)
    )
    assert not list(shown)


def test_every_named_command_exists() -> None:
    below = {group.name: {row[0] for row in group.commands} for group in GROUPS}
    below["admin"].add("take")  # an earlier name, which refers to the new one
    for group in GROUPS:
        below.get(group.parent or "", set()).add(group.name)
    first_words = {row[0] for rows in COMMANDS.values() for row in rows} | {*ALIASES, *below}
    named_commands = [
        (f"{path.relative_to(ROOT)}:{line}", match)
        for path in SOURCE.rglob("*.py")
        for line, text in sentences(path)
        for match in re.finditer(r"`potluck ([a-z-]+)(?: ([a-z-]+))?", text)
    ]
    assert len(named_commands) > 100
    wrong = [
        f"{place} {match[0]}"
        for place, match in named_commands
        if match[1] not in first_words
        or (match[1] in below and match[2] is not None and match[2] not in below[match[1]])
    ]
    assert not wrong


def _is_docstring(source: str, line: int) -> bool:
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return any(
        isinstance(node, holders) and node.body and node.body[0].lineno == line
        for node in ast.walk(ast.parse(source))
    )
