"""A shell in tmux, as a person has it: typed into, looked at."""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import pyte

_PATIENCE_SECONDS = 30.0


class Tmux:
    """A server and a session of its own; both end with the block."""

    def __init__(self, directory: Path, columns: int, lines: int, variables: Mapping[str, str]):
        self._socket = directory / "tmux"
        self._size = (columns, lines)
        self._variables = dict(variables)
        self._program = shutil.which("tmux") or "tmux"

    def __enter__(self) -> Self:
        columns, lines = self._size
        # Sixteen million colours, and no line of its own.
        self._do(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(lines),
            "bash",
            "--noprofile",
            "--norc",
        )
        self._do("set", "-g", "status", "off")
        return self

    def __exit__(self, *_: object) -> None:
        self._do("kill-server")

    def type(self, line: str) -> None:
        """Once the line is there, so that the prompt before it is not taken for the next one."""
        self._do("send-keys", "-l", line)
        self.until(line)
        self._do("send-keys", "Enter")

    def prompt(self) -> None:
        """Until the shell asks for the next command."""
        self._until(lambda screen: screen.rstrip().endswith("$"), "a prompt")

    def press(self, key: str) -> None:
        self._do("send-keys", key)

    def until(self, text: str) -> None:
        self._until(lambda screen: text in screen, repr(text))

    def _until(self, is_there: Callable[[str], bool], description: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_there(screen := self._do("capture-pane", "-p", "-J")):
            assert time.monotonic() < deadline, f"no {description} in\n{screen}"
            time.sleep(0.05)

    def seen(self) -> pyte.Screen:
        """What is on the screen, with its colours."""
        screen = pyte.Screen(*self._size)
        screen.set_mode(pyte.modes.LNM)
        pyte.Stream(screen).feed(self._do("capture-pane", "-p", "-e", "-N").rstrip("\n"))
        return screen

    def _do(self, *arguments: str) -> str:
        command = [self._program, "-S", str(self._socket), *arguments]
        process = subprocess.run(
            command, env=self._variables, capture_output=True, text=True, timeout=_PATIENCE_SECONDS
        )
        assert process.returncode == 0, process.stderr
        return process.stdout
