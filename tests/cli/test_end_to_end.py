"""The commands against the real platform, as `potluck up` leaves it."""

import signal
import stat
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from potluck.consumer import Potluck
from potluck.consumer.identity import keystore
from potluck.model.task import Requirements, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.wire.consumer import FollowedLog
from tests.cli.command_line import CommandLine, InProcess
from tests.cli.operate.platform_process import PlatformProcess
from tests.processes import ProviderProcess, ServerProcess, await_true

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("platform")


@pytest.fixture(scope="module")
def up(home: Path) -> Iterator[PlatformProcess]:
    with PlatformProcess(CommandLine(home / "config"), home / "data") as platform:
        platform.ready()
        yield platform


@pytest.fixture
def person(up: PlatformProcess, home: Path) -> CommandLine:
    """Uses the profile that `up` wrote."""
    return InProcess(home / "config")


@pytest.fixture
def client(up: PlatformProcess, person: CommandLine) -> Iterator[Potluck]:
    """With an API key, as a program would have one."""
    scopes = ("tasks:read", "tasks:write", "pool:read")
    options = [option for scope in scopes for option in ("--scope", scope)]
    (created_key,) = person.run("keys", "add", "test", *options, "--json").lines()
    with Potluck(up.events[-1]["url"], created_key["secret"]) as client:
        yield client


def write(directory: Path, source: str) -> Path:
    script = directory / "job.py"
    script.write_text(source)
    return script


def test_up_ran_a_first_task(up: PlatformProcess) -> None:
    names = [event["event"] for event in up.events]
    assert names == ["server_ready", "provider_ready", "first_task", "ready"]
    first = up.events[2]
    assert first["task"]["state"] == "succeeded"
    assert "333,332,833,333,500,000" in first["stdout"]


def test_no_secret_is_shown_logged_or_in_a_command_line(up: PlatformProcess, home: Path) -> None:
    config = home / "config"
    profile = tomllib.loads((config / "profile.toml").read_text())
    key = keystore.decrypt_key(config / "wallet.json", (config / "wallet-password").read_text())
    node_key = (home / "data" / "provider" / "node-key").read_text()
    secrets = [
        *(profile["access_token"], profile["refresh_token"], key.hex(), node_key),
        (config / "wallet-password").read_text(),
    ]
    logs = list((home / "data" / "logs").iterdir())
    assert len(logs) == 2
    texts = [str(up.events), *(log.read_text() for log in logs)]
    for child in up.children():
        texts += [" ".join(child.cmdline()), str(child.environ())]
    assert all(len(secret) >= 32 for secret in secrets)
    for secret in secrets:
        assert not [place for place in texts if secret in place]
    for path in (config, *config.iterdir(), home / "data" / "provider" / "node-key"):
        assert stat.S_IMODE(path.stat().st_mode) in (0o600, 0o700), path


def test_run_the_example(person: CommandLine) -> None:
    result = person.run("run", EXAMPLES / "hello.py", "Ada", "--json")
    assert result.status == 0, result.stderr
    assert result.stdout.startswith(b"Hello, Ada!\nHello, --json!\nThis is Python 3.")
    assert "✓ hello.py succeeded after" in result.stderr


def test_run_ends_with_the_scripts_own_status(person: CommandLine, tmp_path: Path) -> None:
    source = "import sys\nsys.stdout.buffer.write(b'\\xff\\0')\nsys.stderr.write('oh')\nsys.exit(7)"
    result = person.run("run", write(tmp_path, source))
    assert (result.status, result.stdout) == (7, b"\xff\0")
    assert "oh" in result.stderr
    last = person.run("run", "--json", write(tmp_path, source)).lines()[-1]
    assert (last["state"], last["exit_code"], last["reason"]) == ("failed", 7, "exit_status")


def test_a_task_and_its_retry_read_piped_input(
    home: Path, up: PlatformProcess, tmp_path: Path
) -> None:
    person = CommandLine(home / "config")
    script = write(tmp_path, "import sys; print('Hello', input()); sys.exit(3)")
    first_result = person.run("run", "-i", script, stdin=b"Bob\n")
    assert (first_result.status, first_result.stdout) == (3, b"Hello Bob\n"), first_result.stderr
    retry_result = person.run("retry")
    assert retry_result.status == 0, retry_result.stderr
    assert person.run("logs", "--follow").stdout == b"Hello Bob\n"
    counted = person.run("run", "-i", "--command", "wc", "-c", stdin=b"")
    assert (counted.status, counted.stdout.strip()) == (0, b"0"), counted.stderr


def test_ps_logs_and_result_tell_the_same_story(person: CommandLine, tmp_path: Path) -> None:
    assert person.run("run", "--name", "story", write(tmp_path, "print('told')")).status == 0
    (document,) = person.run("ps", "--limit", "1", "--json").lines()
    (task,) = document["tasks"]
    assert (task["name"], task["state"]) == ("story", "succeeded")
    assert person.run("logs", task["id"][-8:]).stdout == b"told\n"
    assert person.run("logs", "-f").stdout == b"told\n"
    result = person.run("result")
    assert (result.status, result.stdout) == (0, b"told\n")
    assert "succeeded" in result.stderr


def test_a_task_that_nothing_fits_says_why_and_can_be_cancelled(
    person: CommandLine, client: Potluck, tmp_path: Path
) -> None:
    result = person.run("run", "--detach", "--gpu", "64", "--json", write(tmp_path, "print()"))
    (task,) = result.lines()
    await_true(lambda: client.tasks.get(task["id"]).waiting is not None, "the reason is known")
    waiting = person.run("result", task["id"])
    assert waiting.status == 1
    assert "has not ended yet: queued: " in waiting.stderr
    assert person.run("cancel", task["id"]).status == 0
    assert person.run("cancel", task["id"]).status == 0  # once more is fine
    assert person.run("result", task["id"]).status == 0
    assert client.tasks.wait(task["id"]).state is TaskState.CANCELLED


def test_an_ended_task_cannot_be_cancelled(person: CommandLine, client: Potluck) -> None:
    task = client.tasks.wait(client.tasks.submit(TaskRequest(ScriptSpec("a.py", "print()"))).id)
    result = person.run("cancel", task.id)
    assert result.status == 1
    assert "Error: " in result.stderr


def test_ctrl_c_cancels_what_runs(
    up: PlatformProcess, home: Path, client: Potluck, tmp_path: Path
) -> None:
    endless = write(tmp_path, "import time\nprint('begun', flush=True)\ntime.sleep(600)")
    with CommandLine(home / "config").start("run", "--name", "endless", endless) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert client.tasks.list(limit=1).tasks[0].state is TaskState.CANCELLED


def test_follow_from_python(client: Potluck) -> None:
    source = "for n in range(200): print(n, flush=True)"
    needs = Requirements(memory_bytes=2**28)
    task = client.tasks.submit(TaskRequest(ScriptSpec("a.py", source), requirements=needs))
    pages = [event.page for event in client.tasks.follow(task.id) if isinstance(event, FollowedLog)]
    written = b"".join(piece.data for page in pages for piece in page.pieces)
    assert written.decode().split() == [str(n) for n in range(200)]
    assert [page.offset for page in pages[1:]] == [page.next_offset for page in pages[:-1]]


def test_accounts_are_apart(person: CommandLine, up: PlatformProcess, tmp_path: Path) -> None:
    ann = InProcess(tmp_path)
    ann.variables["POTLUCK_WALLET_PASSWORD"] = "of ann's own"
    (signed_in,) = ann.run("login", up.events[-1]["url"], "--json").lines()
    assert person.run("admin", "grant", signed_in["address"], "2.5").status == 0
    assert b"2.5 credits available" in ann.run("whoami").stdout
    assert ann.run("ps", "--json").lines() == [{"tasks": []}]
    task_id = person.run("ps", "--limit", "1", "--json").lines()[0]["tasks"][0]["id"]
    assert ann.run("logs", task_id).status == 66
    assert ann.run("admin", "accounts").status == 77


def test_the_pool_shows_this_machine(person: CommandLine) -> None:
    (document,) = person.run("nodes", "--json").lines()
    (node,) = document["nodes"]
    assert (node["state"], node["is_mine"]) == ("online", True)
    assert node["devices"]


def test_a_second_up_on_the_same_directory_is_refused(home: Path, up: PlatformProcess) -> None:
    result = InProcess(home / "config").run("up", "--port", "0", "--data-dir", home / "data")
    assert result.status == 69
    assert "Another `potluck up` is running" in result.stderr
    assert "--data-dir" in result.stderr


def test_run_outlives_a_killed_server(tmp_path: Path) -> None:
    source = "import time\nfor n in range(30):\n print(n, flush=True)\n time.sleep(0.1)"
    counting = write(tmp_path, source)
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path))
        stack.enter_context(ProviderProcess(tmp_path / "p1", server))
        user = CommandLine(tmp_path / "config", server.url, server.token)
        running = stack.enter_context(user.start("run", counting))
        assert running.stdout is not None and running.stderr is not None
        output_lines = [running.stdout.readline() for _ in range(3)]
        server.kill()
        stack.enter_context(ServerProcess(tmp_path, server.port))
        output_lines += running.stdout.readlines()
        stderr = running.stderr.read().decode()
        assert running.wait(30) == 0
    assert [int(line) for line in output_lines] == list(range(30))  # nothing lost, nothing twice
    assert "Retrying" in stderr
