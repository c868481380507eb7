"""The page that signs a terminal in shows plain words, never the names of scopes."""

import re
from importlib.resources import files

from potluck.model.account import Scope


def test_every_scope_has_plain_words() -> None:
    page = files("potluck.server.pages").joinpath("device.js").read_text("utf-8")
    table = page.split("const MAY = {")[1].split("};")[0]
    assert set(re.findall(r'^  "([^"]+)": "', table, re.MULTILINE)) == set(Scope)
