"""`potluck top`, in a real terminal: what it shows, what its keys do, and how it leaves."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from potluck.cli.terminal.table import Cell, width
from potluck.cli.top.app import Top
from potluck.cli.top.background_threads import RequestDone
from potluck.cli.top.snapshot import SnapshotReader
from potluck.cli.top.text import TaskOrder
from potluck.cli.top.text_view import TextView
from potluck.consumer import Potluck
from potluck.model.error import Conflict, Unavailable
from potluck.model.ids import AttemptId
from potluck.model.task import TaskState
from potluck.wire.consumer import DevicePage, Explanation, LogPage, LogPiece, TaskPage
from tests.cli.command_line import CommandLine
from tests.cli.pool_fixture import OPEN, OVER, devices, ended_tasks, plays_a_pool
from tests.cli.pseudo_terminal import Terminal
from tests.consumer.fake_server import FakeServer, refuses, says

ESCAPE, ENTER, CTRL_C, DOWN = "\x1b", "\r", "\x03", "\x1b[B"


@contextmanager
def top(
    user: CommandLine, columns: int = 80, lines: int = 24, **variables: str
) -> Iterator[Terminal]:
    """At work, with a look every half second."""
    plain = {name: value for name, value in user.variables.items() if name != "NO_COLOR"}
    user.variables = {**plain, **variables}
    size = {"columns": columns, "lines": lines}
    with Terminal(user, "top", "--interval", "0.5", kind="xterm-256color", **size) as terminal:
        terminal.until_row("? Help")
        yield terminal


def test_everything_fits_a_screen_of_any_size(
    process_user: CommandLine, server: FakeServer
) -> None:
    plays_a_pool(server)
    with top(process_user) as terminal:
        rows = terminal.until_row("render.py")
        assert rows[0].startswith(
            f"Potluck · {server.url} · 0x3FCf…3CA0 · 12.5 credits + 0.74 held"
        )
        assert rows[1] == "3 nodes · 2 of 5 GPUs free, 1 away · 2 running · 14 waiting"
        (sweep,) = [row for row in rows if "sweep.py × 200" in row]
        assert "━━━╌╌  61 %" in sweep and "3 min 4" in sweep and "garage" in sweep
        (waits,) = [row for row in rows if "日本語" in row]
        assert "queued" in waits and "12 nodes have" in waits
        (card,) = [row for row in rows if row.startswith("GeForce RTX 4") and "attic" in row]
        assert "97 %" in card and "78 °C" in card and "0.4" in card and "busy" in card
        assert any("outside hours" in row for row in rows)
        assert "402 W" not in card, "what there is no room for is left out"
        assert all(width(row) <= 80 for row in rows)
        assert len(terminal.colours()) > 3
        assert b"[48" not in terminal.raw and b";48;" not in terminal.raw, (
            "the background is its own"
        )
        for columns, lines in [(40, 9), (20, 5), (200, 50)]:
            terminal.resize(columns, lines)
            terminal.until_rows(lambda rows, lines=lines: len(rows) == lines)  # type: ignore[misc]
        terminal.until_row("402 W")
        terminal.press("q")
        terminal.rest()
        assert (terminal.status(), terminal.is_as_it_was) == (0, True)


def test_no_colours_if_disabled(process_user: CommandLine, server: FakeServer) -> None:
    plays_a_pool(server)
    with top(process_user, NO_COLOR="1") as terminal:
        terminal.until_row("render.py")
        assert terminal.colours() == {"default"}


def test_a_look_is_two_requests(server: FakeServer) -> None:
    open_tasks = plays_a_pool(server)
    with Potluck(server.url, "secret") as potluck:
        reader = SnapshotReader(potluck)
        for _ in range(20):
            reader.read()
        paths = [request.path.split("?")[0] for request in server.requests]
        assert len(paths) == 20 * 2 + 4 * 3, "the rest every fifth time"
        server.plays(OPEN, says(TaskPage(open_tasks[1:])))
        server.requests.clear()
        reader.read()
        reader.read()
        assert len(server.requests) == 2 + 3 + 2, "and when a task of ours has ended"
        assigned_task = replace(open_tasks[1], state=TaskState.ASSIGNED)
        server.plays(OPEN, says(TaskPage([assigned_task, *open_tasks[2:]])))
        server.requests.clear()
        reader.read()
        reader.read()
        assert len(server.requests) == 2 + 3 + 2, "or begun, so that the head tells of it"


def back(terminal: Terminal, key: str = ESCAPE) -> None:
    """To the tables, all of them drawn."""
    terminal.press(key)
    terminal.until_rows(lambda rows: "My tasks" in rows[2] and "q Quit" in rows[-1])


def reads(terminal: Terminal, text: str) -> list[str]:
    """Something else than the tables, all of it drawn."""
    return terminal.until_rows(
        lambda rows: any(text in row for row in rows) and "esc Back" in rows[-1]
    )


def test_keys(process_user: CommandLine, server: FakeServer) -> None:
    waiting, sweep, _ = plays_a_pool(server)
    explanation = Explanation(waiting.id, waiting.state, "12 nodes have their devices in use.", 12)
    server.plays(f"/v1/tasks/{waiting.id}/explain", says(explanation))
    log = LogPage(
        AttemptId("attempt_1"), 0, 1, [LogPiece("stdout", b"10 %\r90 %\n\x1b[2Jdone\n")], False
    )
    empty_page = LogPage(AttemptId("attempt_1"), 1, 1, [], False)
    server.plays(f"/v1/tasks/{sweep.id}", says(sweep))
    server.plays(f"/v1/tasks/{sweep.id}/logs?attempt=1&offset=0", says(log))
    server.plays(f"/v1/tasks/{sweep.id}/logs", says(empty_page))
    server.plays(
        f"/v1/tasks/{sweep.id}/cancel", refuses(Conflict("It is over.", "Look again.")), says(sweep)
    )
    with top(process_user) as terminal:
        terminal.press("e")
        reads(terminal, "12 nodes have their devices in use.")
        back(terminal)
        terminal.press(DOWN + "l")
        rows = reads(terminal, "done")
        assert "90 %" in rows and "�[2Jdone" in rows, "as a terminal shows it, and not obeyed"
        back(terminal, "q")
        terminal.press(ENTER)
        reads(terminal, f"sweep.py ({sweep.id})")
        back(terminal)
        terminal.press("c")
        terminal.until_row(f"Cancel sweep.py ({sweep.id})? [y/N]")
        back(terminal, "n")
        assert not any(request.path.endswith("/cancel") for request in server.requests)
        terminal.press("c")
        terminal.until_row("[y/N]")
        terminal.press("y")
        reads(terminal, "It is over.")
        back(terminal)
        terminal.press("c")
        terminal.until_row("[y/N]")
        terminal.press("y")
        terminal.until_rows(
            lambda _: [r.path.endswith("/cancel") for r in server.requests].count(True) == 2
        )
        terminal.press("s")
        terminal.until_row("My tasks · by name")
        terminal.press("\ts")
        terminal.until_row("Devices · by model")
        terminal.press(ENTER)
        reads(terminal, "reliability")
        back(terminal)
        terminal.press("/sweep\r")
        rows = terminal.until_row("No rows match.")
        assert any("sweep.py × 200" in row for row in rows)
        assert not any("train.py" in row for row in rows)
        terminal.press(ESCAPE)
        terminal.until_row("train.py")
        terminal.press("?")
        reads(terminal, "why the selected task waits")
        terminal.press(CTRL_C)
        terminal.rest()
        assert (terminal.status(), terminal.is_as_it_was) == (130, True)


async def test_responses_after_a_view_was_closed_change_nothing(server: FakeServer) -> None:
    plays_a_pool(server)
    with Potluck(server.url, "secret") as potluck:
        reader = SnapshotReader(potluck)
        app = Top(potluck, reader.read(), reader, 60.0)
        screens: list[object] = []

        async def read_and_leave(pilot: Pilot[object]) -> None:
            reading, other = (TextView("log", [[Cell("one")]], lambda: None) for _ in range(2))
            app.post_message(RequestDone(lambda: app._open_view(reading)))
            app.post_message(RequestDone(lambda: app._open_view(other)))  # `l` was pressed twice
            await pilot.pause()
            reading.grow([[Cell("two")]])
            await pilot.press("q")
            await pilot.pause()
            screens.append(app.screen)
            app.post_message(RequestDone(lambda: reading.grow([[Cell("three")]])))
            await pilot.pause()
            other.grow([[Cell("never drawn")]])
            app.exit(0)

        await app.run_async(headless=True, size=(80, 24), auto_pilot=read_and_leave)
    assert app.failure is None
    assert not isinstance(screens[0], TextView), "one q is enough, however often l was pressed"


async def test_an_open_log_shows_new_output(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sweep, _ = plays_a_pool(server)
    logs = f"/v1/tasks/{sweep.id}/logs"
    pages = [
        LogPage(
            AttemptId("attempt_1"), index, index + 1, [LogPiece("stdout", b"%d\n" % index)], False
        )
        for index in range(2)
    ]
    empty_page = LogPage(AttemptId("attempt_1"), 1, 1, [], False)
    server.plays(f"/v1/tasks/{sweep.id}", says(sweep))
    server.plays(f"{logs}?attempt=1&offset=0", says(pages[0]))
    server.plays(f"{logs}?attempt=1&offset=1", says(empty_page))
    gate, under_way = threading.Event(), threading.Event()
    requests: list[tuple[object, ...]] = []
    with Potluck(server.url, "secret") as potluck:
        reader = SnapshotReader(potluck)
        app = Top(potluck, reader.read(), reader, 60.0)
        ask = potluck.tasks.logs

        def slow(*arguments: Any) -> LogPage:
            requests.append(arguments)
            if len(requests) == 3:
                under_way.set()
                assert gate.wait(20)
            return ask(*arguments)

        monkeypatch.setattr(potluck.tasks, "logs", slow)

        async def read(pilot: Pilot[object]) -> None:
            await pilot.press("down", "l")
            await until(lambda: isinstance(app.screen, TextView) and app.screen.is_mounted)
            reading = app.screen
            assert isinstance(reading, TextView)
            server.plays(f"{logs}?attempt=1&offset=1", says(pages[1]))
            server.plays(f"{logs}?attempt=1&offset=2", says(empty_page))
            for _ in range(3):
                reading.refresh_lines()
            await asyncio.to_thread(under_way.wait, 20)
            gate.set()
            await until(lambda: reading._lines == [[Cell("0")], [Cell("1")]])
            reading.refresh_lines()
            await until(lambda: len(requests) == 5)
            app.exit(0)

        await app.run_async(headless=True, size=(80, 24), auto_pilot=read)
    assert app.failure is None
    assert [offset for _, _, offset in requests] == [0, 1, 1, 2, 2], (
        "once at a time, and what is new"
    )
    assert {attempt for _, attempt, _ in requests} == {1}


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


def test_the_key_that_ends_a_line_does_nothing_else(
    process_user: CommandLine, server: FakeServer
) -> None:
    _, sweep, _ = plays_a_pool(server)
    with top(process_user) as terminal:
        terminal.press("/sweep\r")
        terminal.until_row(f"My tasks · by {TaskOrder.AGE} · /sweep")
        terminal.press("c")
        terminal.until_row(f"Cancel sweep.py ({sweep.id})? [y/N]")
        terminal.press("q")
        rows = terminal.until_rows(lambda rows: "q Quit" in rows[-1])
        assert "My tasks" in rows[2], "not the details, which Enter shows elsewhere"
        terminal.press("?")
        reads(terminal, "why the selected task waits")


def test_an_outage_and_its_end_are_reported(process_user: CommandLine, server: FakeServer) -> None:
    plays_a_pool(server)
    with top(process_user, lines=30) as terminal:
        terminal.until_row("sweep.py")
        # An answer that makes no sense is what a newer server could give.
        server.plays("/v1/devices", says({"devices": "none"}))
        terminal.until_row("old, retrying.")
        server.plays(OPEN, refuses(Unavailable("The database is away.", "Wait.")))
        rows = terminal.until_row("old, retrying. The database is away.")
        assert any("sweep.py" in row for row in rows), "what was seen last stays"
        ended_task = replace(ended_tasks()[0], name="new.py")
        server.plays("/v1/devices", says(DevicePage(devices())))
        server.plays(OPEN, says(TaskPage([])))
        server.plays(OVER, says(TaskPage([ended_task])))
        rows = terminal.until_row("new.py")
        assert not any("retrying" in row for row in rows)
        server.plays(OVER, says(TaskPage([])))
        server.plays("/v1/devices", says(DevicePage([])))
        terminal.until_row("The pool is empty. Add a machine")
        os.kill(terminal.process.pid, signal.SIGTERM)
        terminal.rest()
        assert (terminal.status(), terminal.is_as_it_was) == (143, True)


async def test_an_internal_error_ends_it_and_is_reported(server: FakeServer) -> None:
    plays_a_pool(server)
    with Potluck(server.url, "secret") as potluck:
        reader = SnapshotReader(potluck)
        app = Top(potluck, reader.read(), reader, 60.0)

        def mistake() -> None:
            raise ZeroDivisionError("ours")

        async def make_it(_: object) -> None:
            app.post_message(RequestDone(mistake))

        await app.run_async(headless=True, size=(80, 24), auto_pilot=make_it)
    assert isinstance(app.failure, ZeroDivisionError)


@pytest.mark.parametrize("thread_name", ["looks", "is asked"])
async def test_an_error_of_a_thread_is_reported(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, thread_name: str
) -> None:
    """Else a look would never come again, and nobody would know."""
    plays_a_pool(server)
    with Potluck(server.url, "secret") as potluck:
        reader = SnapshotReader(potluck)
        app = Top(potluck, reader.read(), reader, 60.0)

        def mistake(*_: object) -> Any:
            raise ZeroDivisionError("ours")

        monkeypatch.setattr(reader, "read", mistake)
        monkeypatch.setattr(potluck.tasks, "explain", mistake)

        async def make_it(_: object) -> None:
            (app.action_look if thread_name == "looks" else app.action_explain)()
            try:
                async with asyncio.timeout(20):
                    while app.failure is None:
                        await asyncio.sleep(0.01)
            finally:
                app.exit()

        await app.run_async(headless=True, size=(80, 24), auto_pilot=make_it)
    assert isinstance(app.failure, ZeroDivisionError)


def test_one_look_in_a_pipe(user: CommandLine, server: FakeServer) -> None:
    tasks = plays_a_pool(server)
    lines = user.run("top").stdout.decode().splitlines()
    assert lines[1].startswith("3 nodes · 2 of 5 GPUs free")
    assert any(line.startswith(tasks[0].id) for line in lines), "the whole id"
    assert any(line.startswith("GeForce RTX 4090") for line in lines)
    (document,) = user.run("top", "--json").lines()
    assert [task["name"] for task in document["tasks"]][1:3] == ["sweep.py", "train.py"]
    assert document["pool"]["waiting_tasks"] == 14


def test_top_does_not_start_without_a_server(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/tasks", refuses(Unavailable("Starting.", "Wait a little.", 60)))
    result = user.run("top")
    assert (result.status, "Starting." in result.stderr) == (75, True)
