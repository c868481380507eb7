"""Whoever gets the database, as a dump or as files, gets none of the secrets given to it.

Secrets of every kind are planted, everything runs once, and then they are looked for in the dump
and in all files of the cluster: as they are, in base64 at each of its three alignments, and in hex.
"""

import base64
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import pytest

from potluck.server.encryption.key_sources import KeyFile
from potluck.server.postgres.programs import find_program
from potluck.store.sealing.vault import Vault
from potluck.wire import plain_values, routes
from tests.case_counts import counting_cases
from tests.processes import FAST_PROVIDER, Api, ProviderProcess, ServerProcess, WholeServerProcess
from tests.wallets import Wallet

ENVIRONMENT = "planted-environment-8c1f0f7a2e"
ARGUMENT = "planted-argument-d3b07384d1"
SOURCE = "planted-source-1f3870be27"
WEBHOOK = "https://hooks.example/T0/planted-webhook-4e07408562"
FAILURE = "planted-failure-b94d27b993"
TASK_SECRET = "planted-task-secret-5feceb66ff"
CODE = "planted-code-6b86b273ff"
INPUT = "planted-input-d4735e3a26"
RESULT = "planted-result-4e07408562"
RECEIVER = "http://127.0.0.1:9/planted-receiver-9f86d081884c"
# In the clear by decision: what shows that the search finds anything at all.
NAME = "planted-name-2c26b46b68"


class Planted(NamedTuple):
    what: str
    secret: bytes


def test_no_planted_secret_is_in_the_database(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with WholeServerProcess(tmp_path) as server:
        planted = plant(server, tmp_path)
        dump = dumped(tmp_path)
    planted.append(
        Planted("the secret that tokens are signed with", signing_secret(tmp_path, dump))
    )
    files = list(cluster_files(tmp_path))
    assert found(NAME.encode(), [dump]), "the dump is one of these tables, and the search works"
    assert found(NAME.encode(), files), "so are the files"
    with counting_cases(request) as tally:
        for planted_secret in planted:
            with tally("planted secrets that the database does not show", planted_secret.what):
                assert not found(planted_secret.secret, [dump, *files])


def plant(server: ServerProcess, tmp_path: Path) -> list[Planted]:
    """One of everything, and a task that ran to its end with all of its parts."""
    session = Wallet("ada").sign_in(server.url)
    api, admin = server.client(session["access_token"]), server.client()
    key = api.post(routes.MAKE_KEY.path, {"name": "ci", "scopes": ["tasks:read"]})["secret"]
    invite = admin.post(routes.MAKE_INVITE.path, {"roles": ["consumer"]})["code"]
    webhook = server.client().post(routes.MAKE_WEBHOOK.path, {"url": RECEIVER})
    old_secret, webhook_id = webhook["secret"], webhook["webhook"]["id"]
    rotate = routes.ROTATE_WEBHOOK.url(webhook_id=webhook_id)
    new_secret = server.client().call("POST", rotate).json()["secret"]
    with ExitStack() as stack:
        stack.enter_context(ProviderProcess(tmp_path / "p1", server, **FAST_PROVIDER))
        run_tasks(server)
        node_key = (tmp_path / "p1" / "provider" / "node-key").read_text().strip()
    encryption_key = (tmp_path / "server" / "encryption-key").read_text().split()[-1]
    return [
        Planted("an environment variable", ENVIRONMENT.encode()),
        Planted("an argument", ARGUMENT.encode()),
        Planted("a line of the source", SOURCE.encode()),
        Planted("a webhook's address", WEBHOOK.encode()),
        Planted("what a failing task said", FAILURE.encode()),
        Planted("a secret of a task", TASK_SECRET.encode()),
        Planted("a word in the code of a function", CODE.encode()),
        Planted("an argument of a function", INPUT.encode()),
        Planted("what a function returned", RESULT.encode()),
        Planted("where events are sent", RECEIVER.encode()),
        Planted("what signs events", base64.b64decode(new_secret.removeprefix("whsec_"))),
        Planted("what signed them before", base64.b64decode(old_secret.removeprefix("whsec_"))),
        Planted("a refresh token", session["refresh_token"].encode()),
        Planted("an access token", session["access_token"].encode()),
        Planted("an API key", key.encode()),
        Planted("an invite", invite.encode()),
        Planted("a wallet's key", server.wallet.key),
        Planted("the node's key", bytes.fromhex(node_key.removeprefix("0x"))),
        Planted("the encryption key", bytes.fromhex(encryption_key)),
    ]


def run_tasks(server: ServerProcess) -> None:
    client = server.client()
    spec = {
        "kind": "script",
        "filename": "script.py",
        "source": f"import os\nprint(len(os.environ['TOKEN']), {len(SOURCE)})  # {SOURCE}\n",
        "arguments": ["--password", ARGUMENT],
        "environment": {"TOKEN": ENVIRONMENT, "WEBHOOK": WEBHOOK},
    }
    task_id = client.post(routes.SUBMIT_TASK.path, {"spec": spec, "name": NAME})["id"]
    failed = client.submit(f"raise SystemExit('{FAILURE}')")
    call_function(client)
    assert client.finished(task_id)["state"] == "succeeded"
    assert client.log(task_id) == f"{len(ENVIRONMENT)} {len(SOURCE)}\n", "the task itself saw it"
    assert client.finished(failed)["state"] == "failed"
    assert FAILURE in client.log(failed), "its owner reads it; it is in a blob"
    assert client.finished(failed)["last_lines"] == FAILURE
    assert client.finished(raise_exception(client))["last_lines"].endswith(FAILURE)


def call_function(client: Api) -> None:
    """One that has a secret, and gives what is none of anybody else's matter."""

    def told(argument: str) -> str:
        is_complete = argument == INPUT and CODE and os.environ["PASSWORD"] == TASK_SECRET
        return RESULT if is_complete else "nothing"

    spec = {
        "kind": "function",
        "name": "told",
        "code": {"data": base64.b64encode(cloudpickle.dumps(told)).decode()},
        "inputs": {"data": base64.b64encode(pickle.dumps((INPUT,))).decode()},
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    task_request = {
        "spec": spec,
        "secrets": {"PASSWORD": TASK_SECRET},
        "secrets_to_strangers": True,
    }
    task_id = client.post(routes.SUBMIT_TASK.path, task_request)["id"]
    assert client.finished(task_id)["state"] == "succeeded"
    (result,) = client.post(routes.ASK_RESULTS.path, {"tasks": [{"task_id": task_id}]})["results"]
    data = base64.b64decode(result["pieces"][0]["value"]["data"])
    assert plain_values.decode(data) == RESULT


def raise_exception(client: Api) -> str:
    def fail(text: str) -> None:
        raise ValueError(text)

    code = base64.b64encode(cloudpickle.dumps(fail)).decode()
    spec = {
        "kind": "function",
        "name": "fail",
        "code": {"data": code},
        "inputs": {"data": base64.b64encode(pickle.dumps((FAILURE,))).decode()},
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    task_id: str = client.post(routes.SUBMIT_TASK.path, {"spec": spec})["id"]
    return task_id


def dumped(tmp_path: Path) -> bytes:
    """All of the database, as a backup would have it."""
    postgres = tmp_path / "server" / "postgres"
    password = (postgres / "cluster" / "password").read_text().strip()
    program, socket = str(find_program("pg_dump")), str(postgres / "run")
    command = [program, "-h", socket, "-U", "potluck", "postgres"]
    process = subprocess.run(command, env={"PGPASSWORD": password}, capture_output=True, check=True)
    assert b"COPY public.tasks" in process.stdout
    return process.stdout


def signing_secret(tmp_path: Path, dump: bytes) -> bytes:
    """Opened as only the holder of the key can."""
    row = re.search(rb"COPY public\.installation [^\n]+\n[^\n]*\\\\x([0-9a-f]+)", dump)
    assert row is not None
    vault = Vault(KeyFile(tmp_path / "server" / "encryption-key"))
    return vault.open("installation", "sealed_secret", "only", bytes.fromhex(row[1].decode()))


def cluster_files(tmp_path: Path) -> Iterator[bytes]:
    """Tables, indexes and the write-ahead log, as a thief of the disk would have them."""
    for path in (tmp_path / "server" / "postgres").rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.read_bytes()


def found(secret: bytes, places: list[bytes]) -> bool:
    return any(form in place for form in forms(secret) for place in places)


def forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for shift in range(3):
        # Only the characters that no neighbour has a part in.
        text = base64.b64encode(bytes(shift) + secret)[4 if shift else 0 :]
        yield text[: len(text) // 4 * 4 - 4]
        yield text[: len(text) // 4 * 4 - 4].replace(b"+", b"-").replace(b"/", b"_")
