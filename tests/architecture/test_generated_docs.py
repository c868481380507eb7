"""What the pages take from the code is as the code has it."""

import pytest

from scripts.docs import PAGES, PARTS, current_pages
from tests.architecture.repository_files import ROOT

PATHS = sorted({*PAGES, *(path for path, _ in PARTS.values())})


@pytest.mark.parametrize("path", PATHS)
def test_the_generated_page_is_current(path: str) -> None:
    assert (ROOT / path).read_text() == current_pages()[path], f"{path}: run `make docs`"


def test_a_default_that_is_made_is_shown() -> None:
    for path, text in current_pages().items():
        assert "NODEFAULT" not in text, path
    assert "| `POTLUCK_CHAIN_RPC_URLS` | none |" in current_pages()["docs/operations.md"]
