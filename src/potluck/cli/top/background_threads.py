"""Background threads of the screen, so a slow or unreachable server never blocks a key.

They return results as messages, which the application handles one at a time.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from textual.message import Message
from textual.message_pump import MessagePump

from potluck.cli.top.snapshot import SnapshotReader, TopSnapshot
from potluck.model.error import PotluckError

T = TypeVar("T")


class SnapshotTaken(Message):
    """A new snapshot."""

    def __init__(self, snapshot: TopSnapshot):
        super().__init__()
        self.snapshot = snapshot


class SnapshotFailed(Message):
    """A snapshot could not be taken."""

    def __init__(self, error: PotluckError):
        super().__init__()
        self.error = error


class RequestDone(Message):
    """A request has finished; `act` handles its result."""

    def __init__(self, act: Callable[[], object]):
        super().__init__()
        self.act = act


class SnapshotThread:
    """Takes a snapshot at every interval, and on request."""

    def __init__(self, reader: SnapshotReader, interval_seconds: float):
        self._reader = reader
        self._interval_seconds = interval_seconds
        self._wake = threading.Event()
        self._ended = threading.Event()

    def start(self, app: MessagePump) -> None:
        threading.Thread(target=self._run, args=(app,), daemon=True).start()

    def refresh(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._ended.set()
        self._wake.set()

    def _run(self, app: MessagePump) -> None:
        while True:
            self._wake.wait(self._interval_seconds)
            self._wake.clear()
            if self._ended.is_set():
                return
            try:
                app.post_message(SnapshotTaken(self._reader.read()))
            except PotluckError as error:
                app.post_message(SnapshotFailed(error))
            except Exception as error:  # noqa: BLE001 - else the screen would never refresh again
                _raise_in_app(app, error)
                return


def run_request(
    app: MessagePump,
    request: Callable[[], T],
    on_result: Callable[[T], object],
    on_error: Callable[[PotluckError], object],
) -> None:
    """Sends a request in a thread, and handles its result in the application."""

    def work() -> None:
        try:
            result = request()
        except PotluckError as error:
            failure = error
            app.post_message(RequestDone(lambda: on_error(failure)))
        except Exception as error:  # noqa: BLE001 - else the caller would wait forever
            _raise_in_app(app, error)
        else:
            app.post_message(RequestDone(lambda: on_result(result)))

    threading.Thread(target=work, daemon=True).start()


def _raise_in_app(app: MessagePump, error: Exception) -> None:
    """Raises a programming error in the application, which exits and reports it."""

    def raise_it() -> None:
        raise error

    app.post_message(RequestDone(raise_it))
