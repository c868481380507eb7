"""Many things at a time: all are done, the first mistake is told, and nothing new is begun then."""

import threading

import pytest

from potluck.consumer.http.thread_map import map_in_threads


def test_several_are_done_at_a_time() -> None:
    together = threading.Barrier(8)

    def act(_: int) -> None:
        together.wait(5)

    map_in_threads(act, range(8))


def test_all_are_done() -> None:
    handled: list[int] = []
    map_in_threads(handled.append, range(100))
    map_in_threads(handled.append, [])
    assert sorted(handled) == list(range(100))


def test_a_mistake_ends_it() -> None:
    """The others wait, so that whoever fails is heard before they could go on."""
    may_end = threading.Event()
    handled: list[int] = []

    def act(number: int) -> None:
        if number == 3:
            raise KeyError(number)
        may_end.wait(5)
        handled.append(number)

    with pytest.raises(KeyError, match="3"):
        map_in_threads(act, range(1000))
    may_end.set()
    assert len(handled) < 1000 - 8
