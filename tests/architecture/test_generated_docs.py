"""What the pages take from the code is as the code has it."""

import pytest

from scripts.docs import PARTS, current
from tests.architecture.places import ROOT


@pytest.mark.parametrize("name", PARTS)
def test_the_generated_part_is_current(name: str) -> None:
    page, part = PARTS[name]
    assert (ROOT / page).read_text() == current(page, name, part), f"{page}: run `make docs`"
