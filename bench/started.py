"""Real Potluck processes with their usual times, for measurements; ended with the block."""

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coincurve import PublicKey

from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from potluck.model.ids import TaskId
from potluck.model.task import Requirements, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.wire.signing.address import checksummed, keccak256

SETTLE_SECONDS = 6.0  # a provider that has just started still measures its devices


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
        with (
            started(given, variables, directory / "provider.log") as provider,
            Potluck(url, access_token(url, wallet)) as client,
        ):
            yield Whole(client, running.process, provider.process)


class LabelledProvider(NamedTuple):
    """A provider with the label `kind=…`; only it takes tasks that require the label."""

    options: tuple[str, ...] = ()
    module: str = "potluck"


class LabelledPool(NamedTuple):
    url: str
    token: str  # of the operator
    client: Potluck  # the operator's


@contextmanager
def labelled_pool(
    directory: Path, providers: Mapping[str, LabelledProvider]
) -> Iterator[LabelledPool]:
    """A server, and providers of its operator by kind."""
    wallet = new_wallet()
    with ExitStack() as stack:
        url = stack.enter_context(server(directory, wallet.address))
        for kind, provider in providers.items():
            given = ["provide", url, "--data-dir", str(directory / kind), "--name", kind]
            labelled = [*given, "--label", f"kind={kind}", *provider.options]
            log, variables = directory / f"{kind}.log", {"POTLUCK_WALLET_KEY": wallet.key}
            stack.enter_context(started(labelled, variables, log, provider.module))
        token = access_token(url, wallet)
        yield LabelledPool(url, token, stack.enter_context(Potluck(url, token)))


def access_token(url: str, wallet: "Wallet") -> str:
    key = KeyWallet(bytes.fromhex(wallet.key))
    return sign_in(connect_anonymously(url), key).access_token


def complete_script(client: Potluck, kind: str, source: str) -> TaskId:
    """On the provider of this kind, until the client knows the end."""
    request = TaskRequest(
        ScriptSpec("script.py", source), requirements=Requirements(labels=(f"kind={kind}",))
    )
    ended = client.tasks.wait(client.tasks.submit(request).id)
    assert ended.state is TaskState.SUCCEEDED, ended
    return ended.id


def read_output(client: Potluck, task_id: TaskId) -> bytes:
    return b"".join(piece.data for piece in client.tasks.logs(task_id).pieces)


class Wallet(NamedTuple):
    key: str
    address: str


def new_wallet() -> Wallet:
    key = secrets.token_bytes(32)
    public = PublicKey.from_valid_secret(key).format(compressed=False)[1:]
    return Wallet(key.hex(), checksummed(f"0x{keccak256(public)[12:].hex()}"))
