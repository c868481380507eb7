"""The error tree as drawn at the top of its file, and on the page of exit codes, is the tree."""

import re

from potluck.model import error
from potluck.model.error import LocalError, PotluckError
from tests.architecture.places import DOCS

DRAWN = re.compile(r"^ *[│ ]*(?:├──|└──) (\w+)(?: +(\d{3}))?(?: +(\w+))?", re.MULTILINE)


def below(root: type[PotluckError]) -> list[type[PotluckError]]:
    return [leaf for child in root.__subclasses__() for leaf in (child, *below(child))]


def test_every_error_is_drawn_with_its_status_and_code() -> None:
    drawn = {name: (status, code) for name, status, code in DRAWN.findall(error.__doc__ or "")}
    for leaf in below(PotluckError):
        if leaf is LocalError:
            continue
        status = "" if issubclass(leaf, LocalError) else str(leaf.status)
        assert drawn.get(leaf.__name__) == (status, leaf.code), f"draw {leaf.__name__} as it is"
    assert set(drawn) == {leaf.__name__ for leaf in below(PotluckError)}, "drawn, and not there"


def test_codes_are_unique() -> None:
    codes = [leaf.code for leaf in below(PotluckError) if leaf not in (LocalError, error.Internal)]
    assert len(codes) == len(set(codes))


def test_every_error_has_a_row_on_the_page_of_exit_codes() -> None:
    row = re.compile(r"^\| `([a-z_]+)` \| (\d+) \|", re.MULTILINE)
    told = {code: int(status) for code, status in row.findall((DOCS / "operations.md").read_text())}
    expected = {leaf.code: leaf.exit_status for leaf in below(PotluckError) if leaf != LocalError}
    assert told == expected, "the table of exit codes in docs/operations.md is not up to date"
