"""What a task keeps in its checkpoint directory is there for the next attempt."""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from potluck.model.terms import TermsChange
from potluck.provider.control.client import ask
from potluck.provider.control.message import InEffect, Reclaim, Reread
from potluck.provider.owner.file import change_file, terms_file
from tests.control_request import ask_once
from tests.databases import SHARED
from tests.processes import FAST_PROVIDER, Api, ProviderProcess, ServerProcess, await_true

# Counts, and goes on from where an earlier attempt had come to. Asked to end, it says how far it
# is, and a thousand more, so that this can be told from what an interval brought to safety.
COUNTS = """
import os, pathlib, signal, sys, time
place = pathlib.Path(os.environ["POTLUCK_CHECKPOINT"])
step = int((place / "step").read_text()) if (place / "step").exists() else 0
print("from", step, flush=True)
def keep(text):
    (place / "step.new").write_text(text)
    (place / "step.new").rename(place / "step")
def asked(*_):
    keep(str(step + 1000))
    sys.exit(0)
signal.signal(signal.SIGTERM, asked)
first = step
while step < 500:
    step += 1
    keep(str(step))
    time.sleep(0.01)
    if step == first + 30 and {fails}:
        sys.exit(3)
"""
NEVER = 3600.0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Node:
    """A provider that can be killed, and comes back as the same node."""

    def __init__(self, directory: Path, server: ServerProcess, stack: ExitStack) -> None:
        self._directory, self._server, self._stack = directory, server, stack
        self.data = directory / "provider"
        self.start()

    def start(self) -> None:
        quick = {**FAST_PROVIDER, "POTLUCK_PROVIDER_TERMS_SECONDS": "0.1"}
        provider = ProviderProcess(self._directory, self._server, **quick)
        self.process: ProviderProcess = self._stack.enter_context(provider)

    def pause(self, is_paused: bool | None) -> None:
        change_file(terms_file(self.data), TermsChange(is_paused=is_paused))
        assert ask_once(self.data, Reread()) == InEffect(is_known_to_server=True)


def submitted(client: Api, fails: bool, every_seconds: float, **changes: Any) -> str:
    limits = {"checkpoint_seconds": every_seconds}
    return client.submit(COUNTS.format(fails=fails), limits=limits, **changes)


def begun_at(client: Api, task_id: str, attempt: int) -> int | None:
    """The step from which an attempt went on."""
    pieces = client.get(f"/v1/tasks/{task_id}/logs?attempt={attempt}").get("pieces", [])
    text = b"".join(base64.b64decode(piece["data"]) for piece in pieces).decode()
    return int(text.split()[1]) if text.startswith("from") else None


async def is_kept(directory: Path, task_id: str) -> bool:
    """Whether the server has a checkpoint of it, which nobody but a node is ever shown."""
    connection = await asyncpg.connect(SHARED.of(directory))
    try:
        count_checkpoints = (
            "SELECT count(*) FROM task_blobs WHERE task_id = $1 AND role = 'checkpoint'"
        )
        return bool(await connection.fetchval(count_checkpoints, task_id))
    finally:
        await connection.close()


def test_the_next_attempt_continues_from_the_checkpoint(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(ServerProcess(tmp_path))
    node, client = Node(tmp_path / "p", server, stack), server.client()

    # It fails by itself: what it had kept by then is brought to safety after its end.
    failing = submitted(client, True, NEVER, max_attempts=2)
    assert client.finished(failing)["state"] == "failed"
    assert [begun_at(client, failing, number) for number in (1, 2)] == [0, 30]

    # Its node is killed: what an interval has brought to safety counts.
    killed = submitted(client, False, 0.2)
    await_true(lambda: asyncio.run(is_kept(tmp_path, killed)), "something is kept")
    node.process.kill()
    node.start()
    await_true(lambda: begun_at(client, killed, 2) is not None, "it runs again")
    from_there = begun_at(client, killed, 2)
    assert from_there is not None and 0 < from_there < 500

    # Its owner wants the device back: what it writes on being asked to end counts.
    node.pause(True)
    assert list(ask(node.data, Reclaim()))[-1] == InEffect()
    node.pause(None)
    finished = client.finished(killed)
    assert finished["state"] == "succeeded"
    reasons = [attempt["reason"] for attempt in finished["attempts"]]
    assert reasons == ["node_restarted", "reclaimed", "completed"]
    last = begun_at(client, killed, 3)
    assert last is not None and last > 1000
