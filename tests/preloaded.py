"""Potluck processes whose modules are loaded already.

Importing them is most of what a start costs, and tests start a thousand servers. `preloader.py`
imports them once; each process is a fork of it, and goes on as `python -m potluck …` does after its
imports, with arguments, variables, streams and signals of its own.
"""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_NUMBER_BYTES = 4


def can_preload(environment: Mapping[str, str]) -> bool:
    """Not with variables that Python reads as it starts; nor where such sockets are missing."""
    is_for_python = any(name.startswith("PYTHON") for name in environment)
    return sys.platform == "linux" and not is_for_python


class PreloadedProcess(subprocess.Popen[bytes]):
    """Its stdin is empty, its stdout a pipe."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], stderr: IO[bytes]
    ) -> None:
        self.args = ["potluck", *arguments]
        self.stdin = self.stderr = None
        self.returncode = None
        self._lock = threading.Lock()
        self._end, its_end = socket.socketpair()
        reader, writer = os.pipe()
        self.stdout = os.fdopen(reader, "rb")
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "directory": str(Path.cwd()),
        }
        with its_end:
            _PRELOADER.send(json.dumps(order).encode(), (writer, stderr.fileno(), its_end.fileno()))
        os.close(writer)
        self.pid = self._number()

    def _number(self) -> int:
        """The pid first, the exit status later."""
        number = self._end.recv(_NUMBER_BYTES)
        assert number, "the preloader has ended"
        return int.from_bytes(number, sys.byteorder, signed=True)

    def poll(self) -> int | None:
        return self._poll(0)

    def wait(self, timeout: float | None = None) -> int:
        returncode = self._poll(timeout)
        if returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return returncode

    def _poll(self, timeout: float | None) -> int | None:
        """Another thread may wait too; the first closes the connection."""
        if self.returncode is None:
            ready = select.poll()  # `select.select` takes no descriptor above 1023
            try:
                ready.register(self._end, select.POLLIN)
            except ValueError:  # it is closed
                return self.returncode
            is_over = ready.poll(None if timeout is None else 1000 * timeout)
            with self._lock:
                if is_over and self.returncode is None:
                    self.returncode = self._number()
                    self._end.close()
        return self.returncode

    def __del__(self) -> None:
        """The preloader reaps it."""


class _Preloader:
    """Started by the first use in a process of the tests; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: socket.socket | None = None

    def send(self, order: bytes, descriptors: Sequence[int]) -> None:
        with self._lock:
            if self._orders is None:
                self._orders = self._start()
            socket.send_fds(self._orders, [order], descriptors)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.preloader", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as its forks have; it writes nothing itself
                pass_fds=[theirs.fileno()],
            )
        assert process.stdout is not None
        process.stdout.close()
        atexit.register(process.wait)
        atexit.register(ours.close)  # first: it tells the preloader to end
        return ours


_PRELOADER = _Preloader()
