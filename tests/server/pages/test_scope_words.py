"""The pages that sign a terminal in show plain words, never the names of scopes."""

import re
from importlib.resources import files
from pathlib import Path

from potluck.model.account import Scope

SCOPES = Path(__file__).parents[3] / "web" / "src" / "logic" / "scopes.ts"


def test_every_scope_has_the_same_plain_words_on_both_pages() -> None:
    page = files("potluck.server.pages").joinpath("device.js").read_text("utf-8")
    scope_words = _words(page.split("const MAY = {")[1])
    assert set(scope_words) == set(Scope)
    assert _words(SCOPES.read_text().split("= {")[1]) == scope_words


def _words(table: str) -> dict[str, str]:
    return dict(re.findall(r'^  "([^"]+)": "([^"]+)"', table.split("};")[0], re.MULTILINE))
