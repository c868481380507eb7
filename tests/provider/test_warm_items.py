"""Arrays of functions whose interpreter breaks: who is blamed, and what is lost."""

import os
import socket
import time

import pytest

from potluck.model.task import EndReason
from potluck.provider.warm.serve import ANSWER, AT, HEADER, _Answers
from potluck.wire import plain_values
from tests.provider.warm_calls import Shop, items_of

pytestmark = pytest.mark.usefixtures("by_value")


def exits_at_two(item: int) -> int:
    if item == 2:
        os._exit(3)
    time.sleep(0.15)
    return item


async def test_who_breaks_an_interpreter_is_blamed_and_not_the_one_before(walled: Shop) -> None:
    ran = await walled.run(items_of(exits_at_two, range(4)))

    assert ran.returned == {0: 0, 1: 1, 3: 3}
    assert {item: one.reason for item, one in ran.failed.items()} == {2: EndReason.EXIT_STATUS}


def test_an_item_that_was_told_is_answered_before_the_next_begins() -> None:
    """By what runs inside, though others wait until more have gathered."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answers = _Answers(theirs.fileno(), plain_values)
        answers.begin(is_careful=False, flush_seconds=0.3)
        answers.at(7)
        answers.busy.set()
        told = ours.recv(HEADER.size + AT.size, socket.MSG_WAITALL)
        answers.busy.clear()
        answers.returned(7, time.perf_counter(), b"value")

        ours.setblocking(False)
        answered = ours.recv(1000)
        assert told == HEADER.pack(b"A", AT.size) + AT.pack(7)
        assert answered[:1] == b"V"
        assert ANSWER.unpack_from(answered, HEADER.size)[2] == 7
