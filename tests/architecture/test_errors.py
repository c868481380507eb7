"""The error tree as drawn at the top of its file, and on the page of exit codes, is the tree."""

import ast
import re
from pathlib import Path

import pytest

from potluck.cli.command import BROKEN_PIPE_STATUS
from potluck.cli.terminal.error_output import UNEXPECTED_STATUS, choose_hint
from potluck.model import error
from potluck.model.error import LocalError, PotluckError, RemoteError
from tests.architecture.repository_files import DOCS, SOURCE

DRAWN = re.compile(r"^ *[│ ]*(?:├──|└──) (\w+)(?: +(\d{3}))?(?: +(\w+))?", re.MULTILINE)


def below(root: type[PotluckError]) -> list[type[PotluckError]]:
    """Without those of builtin types, which are one error with one code."""
    children = [] if root is RemoteError else root.__subclasses__()
    return [leaf for child in children for leaf in (child, *below(child))]


def test_every_error_is_drawn_with_its_status_and_code() -> None:
    drawn_errors = {
        name: (status, code) for name, status, code in DRAWN.findall(error.__doc__ or "")
    }
    for leaf in below(PotluckError):
        if leaf is LocalError:
            continue
        status = "" if issubclass(leaf, LocalError) else str(leaf.status)
        assert drawn_errors.get(leaf.__name__) == (status, leaf.code), (
            f"draw {leaf.__name__} as it is"
        )
    assert set(drawn_errors) == {leaf.__name__ for leaf in below(PotluckError)}, (
        "drawn, and not there"
    )


def test_codes_are_unique() -> None:
    codes = [leaf.code for leaf in below(PotluckError) if leaf not in (LocalError, error.Internal)]
    assert len(codes) == len(set(codes))


def test_every_error_has_a_row_on_the_page_of_exit_codes() -> None:
    row = re.compile(r"^\| `([a-z_]+)` \| (\d+) \|", re.MULTILINE)
    documented = {
        code: int(status) for code, status in row.findall((DOCS / "operations.md").read_text())
    }
    expected = {leaf.code: leaf.exit_status for leaf in below(PotluckError) if leaf != LocalError}
    assert documented == expected, "the table of exit codes in docs/operations.md is not up to date"


@pytest.mark.parametrize("part", ["cli", "consumer", "local"])
def test_every_error_that_a_person_meets_says_what_to_do(part: str) -> None:
    """Where it is made, so that the hint fits; a function's own exception has none."""
    names = {leaf.__name__ for leaf in below(PotluckError)} - {"RemoteError"}
    silent = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in sorted((SOURCE / part).rglob("*.py"))
        for call in calls(path)
        if isinstance(call.func, ast.Name) and call.func.id in names and not has_hint(call)
    ]
    assert not silent, "give these errors a hint: what is to be done next?"


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def has_hint(call: ast.Call) -> bool:
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return True
    keyword_hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
    hints = [*call.args[1:2], *keyword_hints]
    return any(not isinstance(hint, ast.Constant) or hint.value for hint in hints)


@pytest.mark.parametrize("leaf", below(PotluckError))
def test_errors_of_a_server_without_a_hint_get_one(leaf: type[PotluckError]) -> None:
    assert choose_hint(leaf("It is so.")).endswith(".")


def test_exit_codes_that_are_not_errors_are_documented() -> None:
    page = (DOCS / "operations.md").read_text().partition("## Exit codes")[2]
    documented = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert {0, 1, 130, BROKEN_PIPE_STATUS, UNEXPECTED_STATUS} <= documented
    statuses = {leaf.exit_status for leaf in below(PotluckError)}
    assert statuses <= documented, "each number has a row, whatever the codes behind it"
