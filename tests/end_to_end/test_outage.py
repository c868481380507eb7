"""A node that cannot reach its server: work goes on, and is taken back or let go of afterwards.

One server is there all the time. The node stands at the end of a line that the test cuts, for
longer than a lease. What happens when the server itself is away is in test_silence.py.
"""

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from potluck.provider.attempt.journal import Journal
from potluck.provider.data_directory import attempts_directory
from tests.end_to_end.tcp_proxy import FAR, TcpProxy
from tests.processes import FAST_PROVIDER, PotluckProcess, ServerProcess, await_true

LEASE_SECONDS = 2.0
LOG_BYTES = 8_192
# Says that it runs, and after a while much more.
SHORT = (
    "import time\nprint('begun', flush=True)\ntime.sleep(1)\n"
    f"for _ in range(50): print('x' * {LOG_BYTES // 100}, flush=True)\n"
)
ENDLESS = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"


class Node(PotluckProcess):
    """A provider at an address of its own, and what it says."""

    def __init__(self, directory: Path, url: str, **environment: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data, self.url = directory / "provider", url
        variables = {"POTLUCK_WALLET_KEY": ServerProcess.wallet.key.hex(), **FAST_PROVIDER}
        arguments = ["provide", url, "--data-dir", str(directory)]
        super().__init__(arguments, {**variables, **environment}, directory / "provider.log")

    def hear(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The next so many of this kind."""
        events: list[dict[str, Any]] = []
        assert self.process.stdout is not None
        while len(events) < count:
            line = self.process.stdout.readline()
            assert line, f"it ended without {event}"
            parsed_event = json.loads(line)
            if parsed_event.get("event") == event:
                events.append(parsed_event)
        return events

    def spools(self) -> dict[str, int]:
        """The size of every log that the server may lack, by attempt."""
        log_files = attempts_directory(self.data, self.url).glob("*.log")
        return {path.stem: path.stat().st_size for path in log_files}

    def has_let_go(self) -> bool:
        """No process, no log, no lease, and nothing in the sandbox's directory."""
        has_children = bool(psutil.Process(self.process.pid).children())
        rooms = list((self.data / "sandbox").rglob("attempt_*"))
        return not (has_children or self.spools() or rooms)

    def holds(self) -> int:
        """How many attempts its journal knows; a copy of it is read, since reading tidies up."""
        directory = self.data.parent / "read"
        directory.mkdir(exist_ok=True)
        shutil.copy(attempts_directory(self.data, self.url) / "journal", directory)
        with closing(Journal.open(directory)) as journal:
            return len(journal.kept)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        tmp_path_factory.mktemp("outage"),
        POTLUCK_HOST=FAR,
        POTLUCK_LEASE_SECONDS=str(LEASE_SECONDS),
        POTLUCK_SILENT_AFTER_SECONDS=str(LEASE_SECONDS / 2),
        POTLUCK_HEARTBEAT_SECONDS="0.2",
    ) as server:
        yield server


@pytest.fixture
def line(server: ServerProcess) -> Iterator[TcpProxy]:
    with TcpProxy(server.port) as line:
        yield line


@pytest.fixture
def stack(server: ServerProcess) -> Iterator[ExitStack]:
    """Ends the nodes, and then what was asked of them."""
    with ExitStack() as stack:
        yield stack
    client = server.client()
    for task in client.get("/v1/tasks")["tasks"]:
        client.post(f"/v1/tasks/{task['id']}/cancel", {})


def begun(server: ServerProcess, *sources: str, **changes: Any) -> list[str]:
    """The tasks, once their code runs."""
    client = server.client()
    limits = {"log_bytes": LOG_BYTES, **changes}
    tasks = [client.submit(source, limits=limits) for source in sources]
    await_true(lambda: all("begun" in client.log(task_id) for task_id in tasks), "the code runs")
    return tasks


def is_alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def lost(server: ServerProcess, *tasks: str) -> None:
    client = server.client()
    await_true(
        lambda: {client.task(task_id)["state"] for task_id in tasks} == {"queued"},
        "given up for lost",
    )


def ends(server: ServerProcess, task_id: str) -> list[tuple[str, str | None]]:
    return [
        (attempt["state"], attempt["reason"])
        for attempt in server.client().task(task_id)["attempts"]
    ]


def test_attempts_that_ended_during_the_outage_are_readopted(
    server: ServerProcess, line: TcpProxy, stack: ExitStack, tmp_path: Path
) -> None:
    node = stack.enter_context(Node(tmp_path, line.url))
    short, endless = begun(server, SHORT, ENDLESS)
    line.cut()
    (finished,) = node.hear("attempt_finished")
    assert (finished["task_id"], finished["reason"]) == (short, "completed"), "nobody stopped it"
    lost(server, short, endless)
    assert node.holds() == 2, "the outcome waits on the disk"
    assert LOG_BYTES / 3 < node.spools()[finished["attempt_id"]] < LOG_BYTES, "with its log"

    line.mend()
    assert server.client().finished(short)["state"] == "succeeded"
    assert ends(server, short) == [("succeeded", "completed")], "it ran once"
    assert server.client().log(short).count("x") > LOG_BYTES / 3
    await_true(lambda: ends(server, endless) == [("running", None)], "the other one runs on")
    server.client().post(f"/v1/tasks/{endless}/cancel", {})
    await_true(node.has_let_go, "nothing is left")
    assert node.holds() == 0


def test_an_attempt_that_moved_to_another_node_is_stopped(
    server: ServerProcess, line: TcpProxy, stack: ExitStack, tmp_path: Path
) -> None:
    node = stack.enter_context(Node(tmp_path / "p1", line.url))
    short, endless = begun(server, SHORT, ENDLESS)
    line.cut()
    other = stack.enter_context(Node(tmp_path / "p2", server.url))
    node.hear("attempt_finished")
    other.hear("attempt_started", 2)
    assert node.holds() == 2

    line.mend()
    (stopped,) = node.hear("attempt_stopped")
    assert stopped["task_id"] == endless
    await_true(node.has_let_go, "nothing is left")
    assert node.holds() == 0
    assert server.client().finished(short)["state"] == "succeeded"
    assert ends(server, short) == [("lost", "lease_expired"), ("succeeded", "completed")]
    assert ends(server, endless) == [("lost", "lease_expired"), ("running", None)]


def test_the_shorter_limit_of_a_silence_stops_by_the_nodes_own_clock(
    server: ServerProcess, line: TcpProxy, stack: ExitStack, tmp_path: Path
) -> None:
    owners = {"POTLUCK_PROVIDER_STOP_AFTER_SILENCE_SECONDS": "2"}
    node = stack.enter_context(Node(tmp_path, line.url, **owners))
    (impatient,) = begun(server, ENDLESS, stop_after_silence_seconds=0.7)
    (patient,) = begun(server, ENDLESS)
    line.cut()
    stopped = [event["task_id"] for event in node.hear("attempt_stopped", 2)]
    assert stopped == [impatient, patient]
    assert psutil.Process(node.process.pid).children() == [], "stopped while nobody answers"

    line.mend()
    tasks = (impatient, patient)
    await_true(
        lambda: all(("lost", "silence") in ends(server, task_id) for task_id in tasks),
        "both say why",
    )


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        pytest.param(Node.kill, "node_restarted", id="kill -9"),
        pytest.param(Node.stop, "node_left", id="SIGTERM", marks=pytest.mark.long),
    ],
)
def test_a_node_that_restarts_during_the_outage_returns_all_attempts(
    server: ServerProcess,
    line: TcpProxy,
    stack: ExitStack,
    tmp_path: Path,
    end: Callable[[Node], object],
    reason: str,
) -> None:
    fast = {"POTLUCK_PROVIDER_STOP_GRACE_SECONDS": "0.3"}
    node = stack.enter_context(Node(tmp_path, line.url, **fast))
    short, endless = begun(server, SHORT, ENDLESS)
    children = psutil.Process(node.process.pid).children(recursive=True)
    line.cut()
    node.hear("attempt_finished")
    lost(server, short, endless)
    end(node)
    await_true(lambda: not any(map(is_alive, children)), "nothing outlives it")
    with pytest.raises(AssertionError, match="server_unreachable"):
        Node(tmp_path, line.url)
    assert node.holds() == 2, "a start in vain loses nothing"

    line.mend()
    restarted_node = stack.enter_context(Node(tmp_path, line.url))
    assert restarted_node.first["node_id"] == node.first["node_id"]
    assert server.client().finished(short)["state"] == "succeeded"
    assert ends(server, short) == [("succeeded", "completed")], "what had ended keeps its outcome"
    await_true(lambda: ends(server, endless)[0] == ("lost", reason), "and what had not, its reason")
    await_true(lambda: len(ends(server, endless)) == 2, "it is tried again")


@pytest.mark.long  # with one that was killed: test_silence.py
def test_a_server_that_is_frozen_for_longer_than_a_lease_loses_nothing(
    server: ServerProcess, line: TcpProxy, stack: ExitStack, tmp_path: Path
) -> None:
    node = stack.enter_context(Node(tmp_path, line.url))
    short, endless = begun(server, SHORT, ENDLESS)
    server.process.send_signal(signal.SIGSTOP)
    try:
        node.hear("attempt_finished")
        time.sleep(1.5 * LEASE_SECONDS)
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert server.client().finished(short)["state"] == "succeeded"
    assert ends(server, short) == [("succeeded", "completed")]
    await_true(lambda: ends(server, endless) == [("running", None)], "it was never given up")
