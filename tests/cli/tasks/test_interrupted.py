"""Ctrl-C, typed in a terminal: whoever interrupts knows what goes on, and how it is taken up."""

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, NamedFile
from potluck.model.task import TaskState
from potluck.wire.files import TaskFiles, Upload
from tests.cli.command_line import CommandLine
from tests.cli.pseudo_terminal import Terminal
from tests.consumer.fake_server import FakeServer, Scene, a_task, says, state_event, streams

CTRL_C = "\x03"
# The client waits as long as it was told to, so there is time to press a key.
BUSY = Scene(503, headers={"Retry-After": "30"})
DATA = b"data" * 1000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


def is_asked(server: FakeServer, path: str) -> bool:
    return any(request.path == path for request in server.requests)


def test_while_it_uploads_nothing_runs_yet(
    process_user: CommandLine, server: FakeServer, data: Path
) -> None:
    server.plays("/v1/uploads", says(Upload("upload_1", len(DATA), 0, False), 201))
    server.plays("/v1/uploads/upload_1/parts/0", BUSY)
    arguments = ("run", "--file", data, "--command", "true")
    with Terminal(process_user, *arguments, kind="xterm-256color") as terminal:
        terminal.until_rows(lambda _: is_asked(server, "/v1/uploads/upload_1/parts/0"))
        terminal.until_row("uploading data.bin: ╌")
        terminal.press(CTRL_C)
        rows = terminal.until_row("the same command resumes where it stopped.")
        assert terminal.status() == 130
    assert not any("uploading" in row for row in rows), "nothing is left of the live line"
    assert not is_asked(server, "/v1/tasks")


def test_while_it_downloads_the_task_has_ended(
    process_user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0)
    blob = BlobRef(hashlib.sha256(DATA).hexdigest(), len(DATA))
    server.plays("/v1/tasks", says(replace(end, state=TaskState.QUEUED), 201))
    server.plays(f"/v1/tasks/{end.id}/follow", streams(state_event(1, end)))
    server.plays(f"/v1/tasks/{end.id}/files", says(TaskFiles(1, [NamedFile("out.bin", blob)])))
    server.plays(f"/v1/blobs/{blob.sha256}", BUSY)
    arguments = ("run", "-o", tmp_path / "out", "--command", "true")
    with Terminal(process_user, *arguments, kind="xterm-256color", columns=200) as terminal:
        terminal.until_rows(lambda _: is_asked(server, f"/v1/blobs/{blob.sha256}"))
        terminal.press(CTRL_C)
        rows = terminal.until_row("it stopped.")
        assert terminal.status() == 130
    screen_text = " ".join(" ".join(rows).split())
    assert (
        f"Interrupted; `potluck result {end.id[-8:]} -o {tmp_path / 'out'}` resumes" in screen_text
    )
    assert "✓ hello succeeded" in screen_text
