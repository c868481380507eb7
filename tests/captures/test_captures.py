"""The pictures of the documentation are those that the script takes, and tell no secrets."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pyte
import pytest

from tests.architecture.repository_files import DOCS
from tests.captures.run import CAPTURES, PICTURES, STATUS, ps, taken
from tests.captures.svg import DARK, LIGHT, drawn
from tests.consumer.fake_server import FakeServer

SHOWN = sorted(CAPTURES.glob("*.svg"))


def words(picture: str) -> str:
    return " ".join(text for text in ElementTree.fromstring(picture).itertext() if text.strip())


def test_every_picture_is_taken_and_shown() -> None:
    names = [path.stem for path in SHOWN]
    assert names == sorted([*(name for name, *_ in PICTURES), STATUS[0]])
    page = (DOCS / "terminal.md").read_text() + (DOCS / "operations.md").read_text()
    assert all(f"captures/{name}.svg" in page for name in names)


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.stem)
def test_a_picture_tells_nothing_of_the_machine(path: Path) -> None:
    text = words(path.read_text())
    assert "potluck" in text.lower()
    assert not re.search(r"/(home|root|tmp|work|usr)|secret|@", text)
    assert path.stat().st_size < 60_000


def test_text_stands_where_it_stood() -> None:
    screen = pyte.Screen(20, 2)
    pyte.Stream(screen).feed("a  \x1b[1;38;5;160mb<\x1b[0m \x1b[7m世 \x1b[0m\x1b[4mu\x1b[0m")
    picture = drawn(screen, 1, LIGHT)
    texts = re.findall(r'<text x="([0-9.]+)".*?>(.*?)</text>', picture)
    assert texts == [("12.0", "a"), ("37.2", "b&lt;"), ("62.4", "世"), ("87.6", "u")]
    assert 'fill="#d70000" font-weight="bold"' in picture
    assert DARK.background not in picture


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not here")
def test_a_picture_is_taken_of_a_real_terminal(server: FakeServer) -> None:
    text = words(taken(server, ps, (80, 24, DARK, False)))
    assert "$ potluck ps ID NAME STATE" in text and "GeForce RTX 4090 24 GiB" in text
