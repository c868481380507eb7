"""How long it takes from nothing to registered: an installation, then one command.

    make bench-join

Builds the wheel, installs it with the pinned dependencies (from uv's cache, if they are there) into
an environment of its own, and runs `potluck provide URL` there as a user does who never had
Potluck: an empty home, no wallet, no profile, a terminal in which a password for the new wallet is
typed twice. The server runs already. Prints JSON; `command_s` is from Enter to "is in the pool".
"""

import argparse
import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.started import new_wallet, server

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")
PASSWORD = "a password for the new wallet"
QUESTIONS = ("Password for your new wallet (8 characters or more): ", "The same again: ")
JOINED = "is in the pool"
PATIENCE_SECONDS = 120.0


class Terminal:
    """A command as a person starts it, with what it has shown so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", screen: int) -> None:
        self._process = process
        self._screen = screen
        self.shown = ""

    def until(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0 and self._process.poll() is None, f"no {words!r} in {self.shown!r}"
            if select.select([self._screen], [], [], min(left, 0.1))[0]:
                self.shown += os.read(self._screen, 65_536).decode(errors="replace")

    def type(self, line: str) -> None:
        os.write(self._screen, f"{line}\n".encode())


@contextmanager
def terminal(command: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.terminate()
        process.wait()
        os.close(ours)


def install(directory: Path) -> Path:
    """The program, in an environment that has nothing but what a provider needs."""
    wheels, venv = directory / "wheels", directory / "venv"
    _uv("build", "--wheel", "--out-dir", wheels, ROOT)
    _uv("venv", "--python", sys.executable, venv)
    (wheel,) = wheels.glob("*.whl")
    pinned = ROOT / "locks" / "run.txt"
    _uv("pip", "install", "--python", venv / "bin" / "python", "--constraint", pinned, wheel)
    return venv / "bin" / "potluck"


def _uv(*arguments: str | Path) -> None:
    subprocess.run([UV, "--quiet", *map(str, arguments)], check=True)


def join(program: Path, url: str, home: Path) -> float:
    """Seconds from the command to the line that says it is in the pool."""
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
    began = time.perf_counter()
    with terminal([str(program), "provide", url], environment) as screen:
        for question in QUESTIONS:
            screen.until(question)
            screen.type(PASSWORD)
        screen.until(JOINED)
        return time.perf_counter() - began


def measure(directory: Path, times: int) -> dict[str, object]:
    began = time.perf_counter()
    program = install(directory)
    install_seconds = time.perf_counter() - began
    with server(directory, new_wallet().address) as url:
        taken = [join(program, url, directory / f"home-{number}") for number in range(times)]
    return {
        "install_s": round(install_seconds, 2),
        "command": "potluck provide URL",
        "asked": len(QUESTIONS),
        "command_s": [round(each, 2) for each in taken],
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="the only form there is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        print(json.dumps(measure(Path(name), arguments.times), indent=2))


if __name__ == "__main__":
    main()
