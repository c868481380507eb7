"""Receipts with real programs: signed, countersigned, exported, and verified without a server."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true, potluck

# It signs, and sends nothing before it is killed.
SILENT = {**FAST_PROVIDER, "POTLUCK_PROVIDER_HEARTBEAT_SECONDS": "300"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Nodes may be silent for long."""
    times = {
        "POTLUCK_HEARTBEAT_SECONDS": "300",
        "POTLUCK_LEASE_SECONDS": "3600",
        "POTLUCK_SILENT_AFTER_SECONDS": "1200",
    }
    with ServerProcess(tmp_path_factory.mktemp("server"), 0, **times) as server:
        yield server


def command(server: ServerProcess, directory: Path, *arguments: str | Path) -> Any:
    directory.mkdir(exist_ok=True)
    return subprocess.run(
        potluck(*arguments),
        env={
            **os.environ,
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory),
            "POTLUCK_TOKEN": server.token,
            "POTLUCK_URL": server.url,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def states(server: ServerProcess) -> dict[str, Any]:
    attempts = server.client().get("/v1/me/receipts")["attempts"]
    return {state["attempt_id"]: state for state in attempts}


def signed_lines(node: Path) -> list[str]:
    (file,) = node.glob("provider/receipts/*/receipts.jsonl")
    return [line for line in file.read_text().splitlines() if line.startswith('{"receipt"')]


def test_a_provider_that_is_killed_after_it_signed_sends_the_receipt_later(
    tmp_path: Path, server: ServerProcess
) -> None:
    node = tmp_path / "node"
    with ProviderProcess(node, server, **SILENT) as provider:
        first = server.client().finished(server.client().submit("print('hello')"))
        await_true(lambda: signed_lines(node), "the receipt is signed")
        provider.kill()
    assert not any(state["is_complete"] for state in states(server).values())
    with ProviderProcess(node, server, **FAST_PROVIDER):
        second = server.client().finished(server.client().submit("raise SystemExit(3)"))
        await_true(
            lambda: all(state["is_complete"] for state in states(server).values()),
            "both receipts are countersigned",
        )
    numbers = [json.loads(line)["receipt"]["number"] for line in signed_lines(node)]
    assert numbers == [1, 2]
    states_by_task = {state["task_id"]: state for state in states(server).values()}
    assert states_by_task[first["id"]]["reason"] == "completed"
    assert states_by_task[second["id"]]["reason"] == "exit_status"
    assert states_by_task[first["id"]]["worked_ms"] > 0

    home, export = tmp_path / "home", tmp_path / "receipts.jsonl"
    list_process = command(server, home, "receipts", "list", "--json")
    assert list_process.returncode == 0, list_process.stderr
    address = json.loads(list_process.stdout)["server"]
    table = command(server, home, "receipts", "list", "--as", "consumer")
    assert table.returncode == 0 and table.stdout.count("signed") == len(states_by_task), (
        table.stdout
    )
    export_process = command(server, home, "receipts", "export", export)
    assert export_process.returncode == 0, export_process.stderr
    good = command(server, home, "receipts", "verify", export, "--signer", address)
    assert good.returncode == 0 and "2 receipts of 2 attempts are good" in good.stdout, good
    lines = export.read_text().splitlines(keepends=True)
    export.write_text("".join(lines[1:]))
    bad = command(server, home, "receipts", "verify", export)
    assert bad.returncode == 64 and "Line 2: The server exported 2 receipts" in bad.stderr, bad


def test_a_stopping_provider_sends_its_signed_receipts(
    tmp_path: Path, server: ServerProcess
) -> None:
    with ProviderProcess(tmp_path / "node", server, **SILENT):
        task = server.client().finished(server.client().submit("print('hello')"))
        await_true(lambda: signed_lines(tmp_path / "node"), "the receipt is signed")
    states_by_task = {state["task_id"]: state for state in states(server).values()}
    assert states_by_task[task["id"]]["is_complete"]


def test_a_cancelled_task_is_signed_too(tmp_path: Path, server: ServerProcess) -> None:
    with ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER):
        task_id = server.client().submit("import time; time.sleep(600)")
        await_true(lambda: server.client().task(task_id)["state"] == "running", "it runs")
        server.client().post(f"/v1/tasks/{task_id}/cancel", {})

        def signed() -> Any:
            task_states = [s for s in states(server).values() if s["task_id"] == task_id]
            return task_states and task_states[0]["is_complete"]

        await_true(signed, "its receipt is countersigned")
