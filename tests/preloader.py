"""Imports what servers and providers need, and forks a Potluck process for each order.

    python -m tests.preloader DESCRIPTOR        for `preloaded.py`

It has no threads, since a fork has only the one that made it.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress

import potluck.__main__

_MODULES = (
    "litestar.plugins.attrs",
    "litestar.plugins.pydantic",
    "typer._adapters",
    "uvloop",
    "potluck.cli.main",
    "potluck.cli.operate.server",
    "potluck.cli.provider.provide",
    "potluck.cli.provider.provide_text",
    "potluck.consumer.http.connect",
    "potluck.provider.daemon",
    "potluck.server.assemble",
)
_MOST_BYTES = 2**17


class Preloader:
    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._ends: dict[int, socket.socket] = {}  # by pid
        self._child_ended, self._at_signal = socket.socketpair()
        self._at_signal.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._at_signal.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests get it too, and end

    def run(self) -> bool:
        """Until the tests have ended; true in a fork, which goes on by itself."""
        while True:
            ready, _, _ = select.select([self._orders, self._child_ended], [], [])
            if self._child_ended in ready:
                self._child_ended.recv(_MOST_BYTES)
                self._reap()
            if self._orders in ready:
                order, descriptors, _, _ = socket.recv_fds(self._orders, _MOST_BYTES, 3)
                if not order:
                    return False
                if self._fork(order, descriptors):
                    return True

    def _fork(self, order: bytes, descriptors: list[int]) -> bool:
        pid = os.fork()
        if pid == 0:
            self._become(order, descriptors)
            return True
        stdout, stderr, end = descriptors
        os.close(stdout)
        os.close(stderr)
        self._ends[pid] = socket.socket(fileno=end)
        self._tell(self._ends[pid], pid)
        return False

    def _become(self, order: bytes, descriptors: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for connection in (self._orders, self._child_ended, self._at_signal, *self._ends.values()):
            connection.close()
        stdout, stderr, end = descriptors
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        for descriptor in (stdout, stderr, end):
            os.close(descriptor)
        given = json.loads(order)
        os.chdir(given["directory"])
        os.environ.clear()
        os.environ.update(given["environment"])
        sys.argv = [potluck.__main__.__file__, *given["arguments"]]
        sys.orig_argv = [sys.executable, "-m", "potluck", *given["arguments"]]

    def _reap(self) -> None:
        for pid in list(self._ends):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                end = self._ends.pop(pid)
                self._tell(end, os.waitstatus_to_exitcode(status))
                end.close()

    @staticmethod
    def _tell(end: socket.socket, number: int) -> None:
        with suppress(OSError):  # the test has gone
            end.send(number.to_bytes(4, sys.byteorder, signed=True))


def preload() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    # A collection would write to what forks share.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    orders = socket.socket(fileno=int(sys.argv[1]))
    preload()
    if Preloader(orders).run():
        potluck.__main__.main()
