"""`potluck up` as a real process, with its events read and everything ended afterwards."""

import ctypes
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil

from tests.cli.command_line import CommandLine

PATIENCE_SECONDS = 60.0


class PlatformProcess:
    """Started on enter, ended on exit, also when the test failed."""

    def __init__(self, user: CommandLine, directory: Path, *options: str, port: int = 0):
        self.events: list[dict[str, Any]] = []
        self.process = user.start(
            "up", f"--port={port}", f"--data-dir={directory}", "--json", *options
        )

    def __enter__(self) -> "PlatformProcess":
        return self

    def __exit__(self, *_: object) -> None:
        children = self.children()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        psutil.wait_procs(children, PATIENCE_SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next event of this name."""
        assert self.process.stdout is not None and self.process.stderr is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if self.events[-1].get("event") == event:
                return self.events[-1]
        raise AssertionError(f"no {event}: {self.events} {self.process.stderr.read().decode()}")

    def ready(self) -> dict[str, Any]:
        return self.wait_for("ready")

    def child(self, command: str) -> psutil.Process:
        """The server or the provider."""
        (child,) = [child for child in self.children() if command in child.cmdline()]
        return child

    def children(self) -> list[psutil.Process]:
        """All that it has started, and what those have."""
        try:
            return list(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return []

    def interrupt_a_thread(self) -> None:
        """Any but the first."""
        pid = self.process.pid
        others = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
        others.remove(pid)
        assert ctypes.CDLL(None).tgkill(pid, others[0], signal.SIGINT) == 0

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)
