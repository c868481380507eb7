"""`potluck` as a person starts it: a real process, with a profile of its own."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec import Struct

from potluck.cli.main import execute
from tests.processes import potluck

PATIENCE_SECONDS = 30.0


class Finished(Struct, frozen=True):
    status: int
    stdout: bytes
    stderr: str

    def lines(self) -> list[dict[str, Any]]:
        """Stdout as JSON lines; anything else on it fails the test."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class CommandLine:
    """Runs `potluck` for one user (a configuration directory) of one server."""

    def __init__(self, directory: Path, url: str | None = None, token: str = "secret"):
        inherited = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        own_variables = {
            "POTLUCK_CONFIG_DIR": str(directory),
            "XDG_DATA_HOME": str(directory / "share"),
        }
        # The same whether or not the dashboard was built here.
        unbuilt = {"POTLUCK_DASHBOARD_DIRECTORY": "/nonexistent"}
        self.variables = {**inherited, **own_variables, **unbuilt, "NO_COLOR": "1"}
        if url is not None:
            self.variables |= {"POTLUCK_URL": url, "POTLUCK_TOKEN": token}

    def run(self, *arguments: str | Path, stdin: bytes = b"") -> Finished:
        process = subprocess.run(
            potluck(*arguments),
            input=stdin,
            capture_output=True,
            env=self.variables,
            timeout=PATIENCE_SECONDS,
        )
        return Finished(process.returncode, process.stdout, process.stderr.decode())

    def start(self, *arguments: str | Path) -> "subprocess.Popen[bytes]":
        """For what must be interrupted; the caller ends it."""
        return subprocess.Popen(
            potluck(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.variables,
        )


class InProcess(CommandLine):
    """The same without a process of its own: quick, for what does not end or signal it."""

    def run(self, *arguments: str | Path, stdin: bytes = b"") -> Finished:
        streams = [
            io.TextIOWrapper(io.BytesIO(stream_bytes), "utf-8")
            for stream_bytes in (stdin, b"", b"")
        ]
        with (
            mock.patch.dict(os.environ, self.variables, clear=True),
            mock.patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]),
        ):
            status = execute([str(argument) for argument in arguments])
        stdout, stderr = (_written(stream) for stream in streams[1:])
        return Finished(status, stdout, stderr.decode())


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


def _is_ours(name: str) -> bool:
    return name.startswith("POTLUCK_") or name in ("NO_COLOR", "COLUMNS")
