"""Real Potluck processes with their usual times, for measurements; ended with the block."""

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coincurve import PublicKey

from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from potluck.wire.signing.address import checksummed, keccak256


class Started(NamedTuple):
    process: subprocess.Popen[bytes]
    first: dict[str, Any]  # what it said when it was ready


@contextmanager
def started(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str],
    log: Path,
    module: str = "potluck",
) -> Iterator[Started]:
    """`potluck …` with --json, from when it is ready."""
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments), "--json"],
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
        # Output that is not read fills the pipe in the end, and its writer stops.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Started(process, first)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def server(directory: Path, operator: str) -> Iterator[str]:
    """The address of a server of its own, whose operator is this wallet."""
    arguments = ("server", "--port", "0", "--data-dir", directory)
    variables = {"POTLUCK_OPERATOR": operator}
    with started(arguments, variables, directory / "server.log") as running:
        yield running.first["url"]


class Whole(NamedTuple):
    """A server, a provider in its sandbox and a client, all on this machine."""

    client: Potluck
    server: subprocess.Popen[bytes]
    provider: subprocess.Popen[bytes]


@contextmanager
def whole_pool(directory: Path) -> Iterator[Whole]:
    """From nothing to a node that takes work; one wallet is operator, provider and consumer."""
    wallet = new_wallet()
    arguments = ("server", "--port", "0", "--data-dir", directory)
    log = directory / "server.log"
    with started(arguments, {"POTLUCK_OPERATOR": wallet.address}, log) as running:
        url = running.first["url"]
        given = ("provide", url, "--data-dir", directory)
        variables = {"POTLUCK_WALLET_KEY": wallet.key}
        with started(given, variables, directory / "provider.log") as provider:
            token = sign_in(
                connect_anonymously(url), KeyWallet(bytes.fromhex(wallet.key))
            ).access_token
            with Potluck(url, token) as client:
                yield Whole(client, running.process, provider.process)


class Wallet(NamedTuple):
    key: str
    address: str


def new_wallet() -> Wallet:
    key = secrets.token_bytes(32)
    public = PublicKey.from_valid_secret(key).format(compressed=False)[1:]
    return Wallet(key.hex(), checksummed(f"0x{keccak256(public)[12:].hex()}"))
