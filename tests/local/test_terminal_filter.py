"""What a terminal is given of other people's output: text, colours, progress bars, and no more."""

import re
from itertools import pairwise

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.local.terminal_filter import TerminalFilter, WrittenLines, filter_text

ALLOWED = re.compile(
    r"\x1b\[(?:(?P<style>[0-9;:]*)m|[0-9]*[CDG]|[012]?K|(?P<count>[1-9][0-9]*)(?P<move>[AB]))"
    r"|(?P<line>\n)|[\t\r\b]"
)
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Pieces of sequences, so that whole ones and broken ones are made by chance.
PARTS = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from(
            [
                *(b"\x1b", b"\x1b[", b"\x1b]52;c;QUJD", b"\x1bP", b"\x1b\\", b"\x9b", b"\xc2\x9b"),
                *(b"\x07", b"31", b";", b"m", b"A", b"3A", b"B", b"K", b"2J", b"H", b"?25l"),
                *(b"\n", b"\n\n\n", b"\r", b"\t", b"\xe2\x82\xac", b"\xe2\x82", b"\xf0\x9f", b"x"),
                *(b"\x1b[2K", b"\x1b[A", b"\x1b[0m", b"\x1b[1;31m", b"9" * 70, b"\xed\xa0\x80"),
            ]
        ),
    ),
    max_size=30,
).map(b"".join)


def shown(*pieces: bytes) -> str:
    filtered = TerminalFilter()
    return "".join([*map(filtered.feed, pieces), filtered.finish()])


@given(PARTS, st.lists(st.integers(0, 200), max_size=8))
def test_splitting_the_input_does_not_change_the_output(data: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    assert shown(*(data[start:end] for start, end in pairwise(edges))) == shown(data)
    assert shown(*(bytes([byte]) for byte in data)) == shown(data)


@given(PARTS)
def test_only_allowed_sequences_pass_and_the_cursor_stays_in_its_lines(data: bytes) -> None:
    text = shown(data)
    assert CONTROLS.search(ALLOWED.sub("", text)) is None
    line = last = 0
    style = ""
    for match in ALLOWED.finditer(text):
        style = match["style"] if match["style"] is not None else style
        step = int(match["count"] or 0) * (-1 if match["move"] == "A" else 1)
        line += step + bool(match["line"])
        last = max(last, line) if match["line"] else last
        assert 0 <= line <= last
    assert style.strip("0") == "", "colours end with the stream"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain \xe2\x82\xac\r\n\tand\b more", "plain €\r\n\tand\b more"),
        (b"\x1b[1;38;5;160mred\x1b[0m", "\x1b[1;38;5;160mred\x1b[0m"),
        (b"\x1b[38:2::1:2:3mred\x1b[m", "\x1b[38:2::1:2:3mred\x1b[m"),
        (b"\x1b[31mred", "\x1b[31mred\x1b[0m"),
        (b"\r\x1b[2K50 %\x1b[K", "\r\x1b[2K50 %\x1b[K"),
        (b"a\nb\n\x1b[2Ac\x1b[1Bd", "a\nb\n\x1b[2Ac\x1b[1Bd"),
        (b"a\n\x1b[9A\x1b[A\x1b[9B\x1b[Bz", "a\n\x1b[1A\x1b[1Bz"),
        (b"\x1b[?25lbar\x1b[?25h", "bar"),
        (b"\x1b]52;c;QUJD\x07", "^[]52;c;QUJD^G"),
        (b"\x1b]0;title\x1b\\", "^[]0;title^[\\"),
        (b"\x1bPq#0\x1b\\", "^[Pq#0^[\\"),
        (b"\x1b_apc\x1b^pm\x1bXsos", "^[_apc^[^pm^[Xsos"),
        (b"\x1b[2J\x1b[H\x1b[3J\x1b[6n\x1b[c\x1b[21t", "^[[2J^[[H^[[3J^[[6n^[[c^[[21t"),
        (b"\x1b[?1049h\x1b[>4;1m\x1b[?1m\x1b[4 q", "^[[?1049h^[[>4;1m^[[?1m^[[4 q"),
        (b"\x1b[5K\x1bc\x1b7\x1b(0\x1b[1;5r\x1b[S", "^[[5K^[c^[7^[(0^[[1;5r^[[S"),
        (b"\x1b[3\n1m", "^[[3\n1m"),
        (b"\x9b2J \xc2\x9b2J \xc2\x9d0;x\xc2\x9c", "M-^[2J M-^[2J M-^]0;xM-^\\"),
        (b"\x00\x05\x0b\x0c\x0e\x7f\xff\xc0", "^@^E^K^L^N^?\ufffd\ufffd"),
        ("a\u202ecod\u2069 שלום\u200f".encode(), "a<U+202E>cod<U+2069> שלום\u200f"),
        (b"cut \x1b[3", "cut ^[[3"),
        (b"cut \xe2\x82", "cut \ufffdM-^B"),
    ],
)
def test_allowed_and_replaced_sequences(data: bytes, text: str) -> None:
    assert shown(data) == text


@pytest.mark.parametrize("start", [b"\x1b[", b"\x1b]0;", b"\x1bP", b"\xc2\x9d", b"\x1b[?2"])
def test_a_sequence_without_an_end_is_not_held_back(start: bytes) -> None:
    filtered = TerminalFilter()
    text = "".join([filtered.feed(start), *(filtered.feed(b"1") for _ in range(200))])
    assert text.endswith("1" * 100)


def test_streams_on_one_terminal_share_their_lines_and_not_their_sequences() -> None:
    lines = WrittenLines()
    out, err = TerminalFilter(lines), TerminalFilter(lines)
    assert [out.feed(b"a\n\x1b[3"), err.feed(b"1m\n"), out.feed(b"1m")] == [
        "a\n",
        "1m\n",
        "\x1b[31m",
    ]
    assert err.feed(b"\x1b[5A") == "\x1b[2A"
    lines.begin()
    assert err.feed(b"\x1b[5A") == "", "what was written before is out of reach"


def test_earlier_terminal_lines_are_not_changed() -> None:
    screen = pyte.Screen(40, 10)
    stream = pyte.Stream(screen)
    stream.feed("$ potluck logs\r\n")
    hostile = b"\x1b[31mone\r\n\x1b[99A\r\x1b[2K\x1b[Htwo\r\n\x1b[2J\x1b]0;owned\x07three"
    stream.feed(shown(hostile))
    assert [row.rstrip() for row in screen.display[:3]] == [
        "$ potluck logs",
        "^[[Htwo",
        "^[[2J^[]0;owned^Gthree",
    ]
    assert screen.title == ""
    assert screen.cursor.attrs.fg == "default"


def test_a_text_of_its_own() -> None:
    assert filter_text("a \x1b[1mnode\x1b]0;x\x07\x9b") == "a \x1b[1mnode^[]0;x^GM-^[\x1b[0m"
    assert filter_text("name\udc9b\ud800") == "nameM-^[\ufffd"
