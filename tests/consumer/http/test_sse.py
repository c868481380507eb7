"""Server-Sent Events, however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.consumer.http.stream import EventReader, SentEvent

STREAM = (
    b": hello\n\n"
    b"id: 1\r\nevent: log\r\ndata: a\r\ndata:b\r\n\r\n"
    b"id:2\rdata:  c\r\r"
    b"id: 3\n: still here\n\n"
    b"data: \xc3\xa9\n\n"
)
EVENTS = [
    SentEvent("1", "a\nb", "log"),
    SentEvent("2", " c"),
    SentEvent("3", ""),
    SentEvent(None, "é"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    reader = EventReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    parts = [STREAM[start:end] for start, end in pairwise(edges)]
    assert [event for part in parts for event in reader.feed(part)] == EVENTS


@pytest.mark.parametrize(
    "half", [b"id: 1\ndata: a", b"id: 1\ndata: a\n", b":\n\n", b":\ndata:\n\n"]
)
def test_half_an_event_or_a_sign_of_life_is_none(half: bytes) -> None:
    assert list(EventReader().feed(half)) == []
