"""Whatever goes wrong: a sentence, what to do next, a non-zero exit, and never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.model.error import NotSignedIn
from potluck.store.new_ids import new_task_id
from potluck.wire.consumer import TaskPage
from tests.cli.command_line import CommandLine, Finished
from tests.consumer.fake_server import FakeServer, Scene, a_task, refuses, says
from tests.processes import free_port


def assert_told(finished: Finished, status: int, sentence: str) -> None:
    assert finished.status == status, finished.stderr
    assert sentence in finished.stderr
    assert finished.stderr.startswith("Error: ")
    assert "Traceback" not in finished.stderr
    assert len(finished.stderr.splitlines()) == 2  # the sentence and the hint


def test_no_profile(stranger: CommandLine) -> None:
    assert_told(stranger.run("ps"), 78, "No server is configured yet")


def test_the_server_is_not_running(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = CommandLine(tmp_path, url).run("ps")
    assert_told(result, 69, f"Nothing answers at {url}: is the server running?")
    assert "potluck up" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "missing.py"), "There is no file"),
        (("run", "/"), "is a directory"),
        (("run", "/bin/true"), "not a Python script"),
        (("run", "--ram", "lots", __file__), "--ram 'lots' is not a size"),
        (("run", "--ram", "1kB", __file__), "--ram must be at least 16 MiB"),
        (("run", "--time", "soon", __file__), "--time 'soon' is not a duration"),
        (("run", "--time", "0s", __file__), "--time '0s' must be longer than zero"),
        (("run", "--ram", "9999999TB", __file__), "--ram must be at most 1 PiB"),
        (("run", "--gpu", "99", __file__), "--gpu"),
        (("run", "--gpu", "1e9", __file__), "--gpu '1e9' is not a number of GPUs"),
        (("run", "--gpu", "1.5", __file__), "--gpu '1.5' is not a number of GPUs"),
        (("admin", "grant", "0xabc", "-5"), "-5 is negative; numbers here must be positive."),
        (("admin", "revoke", "0xabc", "-.5", "--reason", "x"), "-.5 is negative"),
        (("run", "--nonsense", __file__), "--nonsense"),
        (("doctor", "banana"), "for 'part': 'banana' is not one of"),
        (("cancel",), "Missing argument"),
        (("frobnicate",), "No such command"),
    ],
    ids=lambda value: " ".join(map(str, value))[-40:] if isinstance(value, tuple) else "",
)
def test_an_invalid_command_line_is_refused(
    stranger: CommandLine, arguments: tuple[str, ...], sentence: str
) -> None:
    assert_told(stranger.run(*arguments), 64, sentence)


def test_an_unknown_token(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/me", refuses(NotSignedIn("This token is unknown.", "Ask for another.")))
    assert_told(user.run("whoami"), 77, "This token is unknown.")


def test_an_unknown_task(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/tasks", says(TaskPage([a_task()])))
    assert_told(user.run("logs", "zzzz"), 66, "None of your newest 200 tasks")
    assert_told(user.run("cancel", new_task_id()), 66, "404")


def test_with_json_the_error_is_the_last_line_of_stdout(
    user: CommandLine, server: FakeServer
) -> None:
    server.plays("/v1/me", Scene(200, b"<html>"))
    result = user.run("whoami", "--json")
    assert_told(result, 78, "does not match this version of Potluck")
    (line,) = result.lines()
    assert line["error"]["code"] == "bad_settings"
    assert line["error"]["hint"]


def test_with_json_a_mistyped_option_too(stranger: CommandLine) -> None:
    (line,) = stranger.run("ps", "--nonsense", "--json").lines()
    assert line["error"]["code"] == "invalid_input"


def test_a_reader_that_goes_away_is_no_error(process_user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/tasks", says(TaskPage([a_task() for _ in range(2000)])))
    with process_user.start("ps", "--limit", "2000") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_traceback_is_for_those_who_ask(
    user: CommandLine, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    monkeypatch.setattr("potluck.cli.tasks.ps.connect", None)
    user.variables["POTLUCK_DEBUG"] = debug
    result = user.run("ps")
    assert result.status == 70
    assert "POTLUCK_DEBUG=1" in result.stderr
    assert ("Traceback" in result.stderr) == bool(debug)


def test_a_real_process_tells_the_same(tmp_path: Path) -> None:
    result = CommandLine(tmp_path).run("ps", "--json")
    assert_told(result, 78, "No server is configured yet")
    assert result.lines()[0]["error"]["code"] == "bad_settings"


def test_a_closed_stdout_is_no_mistake_of_ours(tmp_path: Path) -> None:
    closed = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m potluck version >&-"],
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_an_unwritable_output_is_reported(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    with full.open("wb") as nowhere:
        process = subprocess.run(
            [sys.executable, "-m", "potluck", "version"],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
    assert process.returncode == 74
    assert b"No space left on device" in process.stderr and b"mistake" not in process.stderr


def test_an_empty_data_directory_is_not_taken_for_this_one() -> None:
    for command in (("up",), ("server",)):
        process = subprocess.run(
            [sys.executable, "-m", "potluck", *command, "--data-dir", ""], capture_output=True
        )
        assert process.returncode == 78
        assert b"empty name" in process.stderr
