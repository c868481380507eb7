"""Threads of the whole screen: a server that is slow or away never holds up a key.

What they find comes back as messages, which the screen takes one after the other.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from textual.message import Message
from textual.message_pump import MessagePump

from potluck.cli.top.snapshot import Looker, TopSnapshot
from potluck.model.error import PotluckError

T = TypeVar("T")


class SnapshotTaken(Message):
    """A look was taken."""

    def __init__(self, picture: TopSnapshot):
        super().__init__()
        self.picture = picture


class Missed(Message):
    """A look could not be taken."""

    def __init__(self, error: PotluckError):
        super().__init__()
        self.error = error


class RequestDone(Message):
    """What was asked for is here, and this is to be done with it."""

    def __init__(self, act: Callable[[], object]):
        super().__init__()
        self.act = act


class Looking:
    """Looks again and again, and at once when it is told to."""

    def __init__(self, looker: Looker, interval_seconds: float):
        self._looker = looker
        self._interval_seconds = interval_seconds
        self._wake = threading.Event()
        self._ended = threading.Event()

    def begin(self, tell: MessagePump) -> None:
        threading.Thread(target=self._look, args=(tell,), daemon=True).start()

    def look_now(self) -> None:
        self._wake.set()

    def end(self) -> None:
        self._ended.set()
        self._wake.set()

    def _look(self, tell: MessagePump) -> None:
        while True:
            self._wake.wait(self._interval_seconds)
            self._wake.clear()
            if self._ended.is_set():
                return
            try:
                tell.post_message(SnapshotTaken(self._looker.look()))
            except PotluckError as error:
                tell.post_message(Missed(error))
            except Exception as error:  # noqa: BLE001 - else the screen would stay old for ever
                _hand_over(tell, error)
                return


def ask(
    tell: MessagePump,
    question: Callable[[], T],
    then: Callable[[T], object],
    otherwise: Callable[[PotluckError], object],
) -> None:
    """Asks in a thread; what is done with the answer is done where the screen is."""

    def work() -> None:
        try:
            found = question()
        except PotluckError as error:
            told = error
            tell.post_message(RequestDone(lambda: otherwise(told)))
        except Exception as error:  # noqa: BLE001 - else whoever asked would wait for ever
            _hand_over(tell, error)
        else:
            tell.post_message(RequestDone(lambda: then(found)))

    threading.Thread(target=work, daemon=True).start()


def _hand_over(tell: MessagePump, error: Exception) -> None:
    """A mistake of ours is raised where the screen is, which ends and tells it."""

    def raise_it() -> None:
        raise error

    tell.post_message(RequestDone(raise_it))
