"""Real Potluck processes with their usual times, for measurements; ended with the block."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coincurve import PublicKey

from potluck.wire.address import checksummed, keccak256


class Started(NamedTuple):
    process: subprocess.Popen[bytes]
    first: dict[str, Any]  # what it said when it was ready


@contextmanager
def started(
    arguments: Sequence[str | Path], environment: Mapping[str, str], log: Path
) -> Iterator[Started]:
    """`potluck …` with --json, from when it is ready."""
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "potluck", *map(str, arguments), "--json"],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"it ended before it was ready: {log.read_text()[-2000:]}"
        first = json.loads(line)
        assert "error" not in first, first
        yield Started(process, first)
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def server(directory: Path, operator: str) -> Iterator[str]:
    """The address of a server of its own, whose operator is this wallet."""
    arguments = ("server", "--port", "0", "--data-dir", directory / "server")
    variables = {"POTLUCK_OPERATOR": operator}
    with started(arguments, variables, directory / "server.log") as running:
        yield running.first["url"]


class Wallet(NamedTuple):
    key: str
    address: str


def new_wallet() -> Wallet:
    key = secrets.token_bytes(32)
    public = PublicKey.from_valid_secret(key).format(compressed=False)[1:]
    return Wallet(key.hex(), checksummed(f"0x{keccak256(public)[12:].hex()}"))
