"""`potluck run` of other kinds than scripts, with files and secrets: what the server is asked."""

import hashlib
import io
import os
import signal
import subprocess
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from potluck.model.account import Credential
from potluck.model.blob import BlobRef, NamedFile
from potluck.model.ids import AccountId
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import CommandSpec, ContainerSpec, ScriptSpec
from potluck.wire.consumer import TaskPage
from potluck.wire.files import BeginUpload, TaskFiles, Upload
from potluck.wire.identity import Me
from tests.cli.command_line import PATIENCE_SECONDS, CommandLine
from tests.cli.pseudo_terminal import Terminal
from tests.consumer.fake_server import FakeServer, Scene, a_task, says, state_event, streams
from tests.processes import await_true, potluck

ANN, BEN = "0x" + "a" * 40, "0x" + "B" * 40
T = TypeVar("T")


@pytest.fixture(autouse=True)
def takes_tasks(server: FakeServer) -> None:
    server.plays("/v1/tasks", says(a_task(), 201))


def sent(server: FakeServer, kind: type[T]) -> tuple[TaskRequest, T]:
    """The last request for a task, and what it is made of."""
    bodies = [request.body for request in server.requests if request.path == "/v1/tasks"]
    request = msgspec.json.decode(bodies[-1], type=TaskRequest)
    assert isinstance(request.spec, kind)
    return request, request.spec


def refused(user: CommandLine, server: FakeServer, *arguments: str | Path) -> str:
    """What a person is told, and that the server was not even asked."""
    result = user.run("run", *arguments)
    assert result.status == 64, result.stderr
    assert not server.requests
    return " ".join(result.stderr.split())


def takes_uploads(server: FakeServer, part_bytes: int = 2**20) -> None:
    """Nothing is there yet, and one part is enough."""
    server.plays("/v1/uploads", says(Upload("upload_1", part_bytes, 0, False), 201))
    server.plays("/v1/uploads/upload_1/parts/0", says(Upload("upload_1", part_bytes, 1, False)))
    server.plays("/v1/uploads/upload_1/finish", says(Upload("upload_1", part_bytes, 1, True)))


def test_a_command(user: CommandLine, server: FakeServer) -> None:
    assert user.run("run", "-d", "--command", "--env", "A=1", "--", "nvidia-smi", "-L").status == 0
    _, spec = sent(server, CommandSpec)
    assert (spec.command, spec.environment) == (("nvidia-smi", "-L"), {"A": "1"})


@pytest.mark.parametrize("arguments", [("run", "-d"), ("submit",)], ids=["run", "submit"])
def test_stdin_is_sent_as_an_input(
    user: CommandLine, server: FakeServer, arguments: tuple[str, ...]
) -> None:
    takes_uploads(server)
    result = user.run(*arguments, "-i", "--command", "cat", stdin=b"Bob\n")
    assert result.status == 0, result.stderr
    blob = BlobRef(hashlib.sha256(b"Bob\n").hexdigest(), 4)
    assert sent(server, CommandSpec)[1].stdin == blob


def test_stdin_that_is_not_sent_is_mentioned(process_user: CommandLine, server: FakeServer) -> None:
    user = process_user
    result = user.run("run", "-d", "--command", "cat", stdin=b"Bob\n")
    assert (result.status, result.stderr.count("--stdin (-i)")) == (0, 1), result.stderr
    assert sent(server, CommandSpec)[1].stdin is None
    assert "--stdin" not in user.run("run", "-d", "--command", "cat").stderr, "nothing was piped in"
    assert "--stdin" not in user.run("run", "-d", "-", stdin=b"print(1)").stderr, "it is the script"


def test_a_pipe_that_stays_open_is_not_waited_for(user: CommandLine, server: FakeServer) -> None:
    waiting, writer = os.pipe()
    try:
        process = subprocess.run(
            potluck("run", "-d", "--command", "cat"),
            stdin=waiting,
            capture_output=True,
            env=user.variables,
            timeout=PATIENCE_SECONDS,
        )
    finally:
        os.close(waiting)
        os.close(writer)
    assert process.returncode == 0 and b"--stdin" not in process.stderr


def test_stdin_has_a_limit(
    user: CommandLine, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.cli.request.inputs.MOST_STDIN_BYTES", 2**20)
    result = user.run("run", "-i", "--command", "cat", stdin=bytes(2**20 + 1))
    assert result.status != 0 and "1 MiB" in result.stderr and "--file" in result.stderr
    assert not server.requests


def test_stdin_is_not_for_many_items_nor_for_a_script_that_is_read_from_it(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "items").write_text("1\n2\n")
    result = user.run("map", "-i", "--command", tmp_path / "items", "echo", stdin=b"Bob\n")
    assert result.status == 64 and "--file" in result.stderr and not server.requests
    assert "--file" in refused(user, server, "-i", "--array", "2", "--command", "cat")
    assert "Name a file" in refused(user, server, "-i", "-")


def test_an_image_with_and_without_a_command(user: CommandLine, server: FakeServer) -> None:
    assert user.run("run", "-d", "--image", "busybox:1.37", "echo", "--json").status == 0
    assert sent(server, ContainerSpec)[1].command == ("echo", "--json")
    assert user.run("run", "-d", "--image", "busybox:1.37").status == 0
    assert sent(server, ContainerSpec)[1] == ContainerSpec("busybox:1.37")


def test_a_template_sets_options_that_the_command_line_overrides(
    user: CommandLine, server: FakeServer
) -> None:
    server.plays("/v1/uploads", says(Upload("", 2**20, 0, True)))
    arguments = ("--template", "mandelbrot", "-p", "width=64", "--time", "5m", "--detach")
    assert user.run("run", *arguments).status == 0
    request, spec = sent(server, ScriptSpec)
    assert (request.name, spec.filename) == ("mandelbrot", "draw.py")
    assert (request.limits.run_seconds, request.requirements.memory_bytes) == (300, 2**30)
    assert spec.arguments[:2] == ("--width=64", "--height=800")
    assert spec.folder is not None, "its kernel goes along"
    assert user.run("run", "-d", "--template", "torch-training", "extra").status == 0
    request, spec = sent(server, ScriptSpec)
    assert (request.requirements.memory_bytes, request.limits.checkpoint_seconds) == (4 * 2**30, 15)
    assert spec.arguments[-1] == "extra"
    assert spec.folder is None, "there is nothing but the script"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--command", "There is nothing to run."),
        ("", "No script is named."),
        ("--command --image busybox", "--command and --image contradict each other."),
        ("-p size=1 --command ls", "-p sets parameters of a template, but no template is named."),
        ("--template matrix-product -p size", "-p 'size' is not NAME=value."),
        ("--template matrix-product -p size=3 -p size=64", "-p size is given twice."),
        ("--template matrix-product -p sise=1", "matrix-product has no parameter 'sise'."),
        ("--template matrix-product --folder .", "--folder cannot be used with a template"),
        ("--image BAD|NAME", "--image is not the name of an image"),
        ("--folder /absent/dir --command ls", "--folder /absent/dir is not a directory."),
        ("--file /absent/dir --command ls", "There is no file /absent/dir."),
        ("--file /etc --command ls", "--file /etc is a directory."),
        ("--file /etc/passwd:../x --command ls", "'../x' is not a path in the task's directory."),
        (
            "--file /etc/passwd --file /etc/hosts:passwd --command ls",
            "Two files would be named passwd",
        ),
        ("--output /etc/passwd --command ls", "--output /etc/passwd is not a directory."),
        (
            "--output /etc/passwd/x --command ls",
            "--output /etc/passwd/x cannot be used as a directory: Not a directory.",
        ),
        ("--secret A-B --command ls", "--secret 'A-B' is not the name of a variable."),
        ("--secret EMPTY= --command ls", "The secret EMPTY is empty."),
        ("--secret UNSET_HERE --command ls", "There is no terminal to ask for this: UNSET_HERE."),
        ("--secret PATH --env PATH=1 --command ls", "PATH cannot be both --env and --secret."),
        (f"--trust {ANN} --command ls", "have no effect without secrets."),
        ("--owner 0x12 --command ls", "--owner is not a wallet address"),
        ("--checkpoint 2d --command ls", "--checkpoint must be at most 1 d 0 h."),
    ],
)
def test_contradicting_options_are_refused(
    user: CommandLine, server: FakeServer, arguments: str, sentence: str
) -> None:
    result = user.run("run", *arguments.split())
    assert result.status in (64, 78), result.stderr
    assert sentence in " ".join(result.stderr.split())
    assert not server.requests, "the server was not even asked"


@pytest.mark.parametrize("arguments", ["-", "-i --command cat", "--secret UNSET --command ls"])
def test_a_closed_stdin_is_empty(user: CommandLine, arguments: str) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *potluck("run", *arguments.split())]
    process = subprocess.run(closed, env=user.variables, capture_output=True, timeout=30)
    assert process.returncode not in (0, 70), process.stderr


def test_an_invalid_template_is_reported_to_programs_too(user: CommandLine) -> None:
    result = user.run("run", "--json", "--template", "mandelbort")
    assert result.status == 66
    assert result.lines()[-1]["error"]["code"] == "not_found"


def test_files_are_sent_and_found_under_their_names(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    takes_uploads(server)
    data = tmp_path / "data.csv"
    data.write_bytes(b"1,2\n")
    result = user.run("run", "-d", "--json", "--file", f"{data}:in/train.csv", "--command", "wc")
    blob = BlobRef(hashlib.sha256(b"1,2\n").hexdigest(), 4)
    assert result.status == 0, result.stderr
    assert result.lines()[0] == {
        "event": "uploaded",
        "source": str(data),
        "sha256": blob.sha256,
        "size_bytes": 4,
    }
    upload_request = msgspec.json.decode(server.requests[0].body, type=BeginUpload)
    assert upload_request.blob == blob
    assert server.requests[1].body == b"1,2\n"
    assert sent(server, CommandSpec)[1].files == (NamedFile("in/train.csv", blob),)


def test_a_folder_is_sent_without_ignored_files(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    takes_uploads(server)
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "train.py").write_text("import helper\n")
    (project / "src" / "helper.py").write_text("\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "large.log").write_text("x" * 1000)
    script = project / "src" / "train.py"
    assert user.run("run", "-d", "--folder", project, script, "fast").status == 0
    _, spec = sent(server, ScriptSpec)
    assert (spec.filename, spec.arguments) == ("src/train.py", ("fast",))
    packed = server.requests[1].body
    assert spec.folder == BlobRef(hashlib.sha256(packed).hexdigest(), len(packed))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
    assert "src/helper.py" in names and "large.log" not in names


def test_an_upload_logs_at_most_ten_progress_lines(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    parts, size = 40, 2**18
    uploads = [Upload("upload_1", size, number, False) for number in range(parts + 1)]
    server.plays("/v1/uploads", says(uploads[0], 201))
    for number in range(parts):
        server.plays(f"/v1/uploads/upload_1/parts/{number}", says(uploads[number + 1]))
    server.plays("/v1/uploads/upload_1/finish", says(Upload("upload_1", size, parts, True)))
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(parts * size))
    result = user.run("run", "-d", "--file", large, "--command", "true")
    lines = result.stderr.splitlines()
    assert lines[:3] == [
        "potluck: reading large.bin",
        "potluck: uploading large.bin: 0 % of 10 MiB",
        "potluck: uploading large.bin: 10 % of 10 MiB",
    ]
    assert lines[11] == "potluck: uploading large.bin: 100 % of 10 MiB"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "/v1/uploads/upload_1/parts/0",
            "Interrupted before it was submitted; the same command resumes where it stopped.",
        ),
        ("/v1/tasks", "Interrupted during submission; `potluck ps` shows whether the task exists."),
    ],
)
def test_an_early_interrupt_says_how_to_continue(
    process_user: CommandLine, server: FakeServer, tmp_path: Path, path: str, sentence: str
) -> None:
    takes_uploads(server)
    server.plays(path, Scene(503, headers={"Retry-After": "30"}))
    data = tmp_path / "data.bin"
    data.write_bytes(b"data")
    with process_user.start("run", "--file", data, "--command", "true") as running:
        await_true(lambda: server.requests[-1:] and server.requests[-1].path == path, "it waits")
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert sentence in stderr.decode()


def test_secrets_come_from_the_environment(user: CommandLine, server: FakeServer) -> None:
    user.variables |= {"API_TOKEN": "hush hush"}
    arguments = ("--secret", "API_TOKEN", "--trust", ANN, "--trust", BEN)
    assert user.run("run", "-d", *arguments, "--command", "env").status == 0
    request, spec = sent(server, CommandSpec)
    assert (request.secrets, request.trust) == ({"API_TOKEN": "hush hush"}, (ANN, BEN))
    assert not request.secrets_to_strangers
    assert spec.environment == {}
    assert (
        user.run(
            *("run", "-d", "--secret", "API_TOKEN", "--secrets-to-strangers", "--command", "env")
        ).status
        == 0
    )
    assert sent(server, CommandSpec)[0].secrets_to_strangers


def test_a_secret_on_the_command_line_is_spoken_about(
    user: CommandLine, server: FakeServer
) -> None:
    result = user.run("run", "-d", "--secret", "KEY=a=b", "--command", "env")
    assert sent(server, CommandSpec)[0].secrets == {"KEY": "a=b"}
    assert "KEY has fewer than 6 characters, so it is not" in result.stderr
    assert "other users of this machine can see KEY" in result.stderr
    assert "a=b" not in result.stderr


def test_a_secret_is_prompted_for_without_echo(
    process_user: CommandLine, server: FakeServer
) -> None:
    with Terminal(process_user, "run", "-d", "--secret", "TOKEN", "--command", "env") as terminal:
        terminal.answer("TOKEN: ", "typed unseen")
        assert "typed unseen" not in terminal.rest()
        assert terminal.status() == 0
    assert sent(server, CommandSpec)[0].secrets == {"TOKEN": "typed unseen"}


def test_a_secret_that_is_no_text_is_not_shown(user: CommandLine, server: FakeServer) -> None:
    user.variables |= {"TOKEN": "hush\udcff"}
    message = refused(user, server, "--secret", "TOKEN", "--command", "env")
    assert "The secret TOKEN is not valid UTF-8." in message
    assert "hush" not in message


def test_only_on_nodes_of_these_owners(user: CommandLine, server: FakeServer) -> None:
    me = Me(AccountId("account_1"), BEN, [], Credential.KEY, [], 0, 0)
    server.plays("/v1/me", says(me))
    assert user.run("run", "-d", "--owner", ANN, "--owner", "me", "--command", "id").status == 0
    assert sent(server, CommandSpec)[0].requirements.owners == (ANN, BEN)


def test_output_files_are_downloaded_at_the_end(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0)
    picture = b"\x89PNG"
    named_file = NamedFile(
        "pictures/1.png", BlobRef(hashlib.sha256(picture).hexdigest(), len(picture))
    )
    server.plays("/v1/tasks", says(end, 201))
    server.plays(f"/v1/tasks/{end.id}/follow", streams(state_event(1, end)))
    server.plays(f"/v1/tasks/{end.id}/files", says(TaskFiles(1, [named_file])))
    server.plays(f"/v1/blobs/{named_file.blob.sha256}", Scene(200, picture))
    result = user.run("run", "-o", tmp_path / "out", "--command", "draw")
    assert (result.status, result.stderr.splitlines()[-1]) == (
        0,
        f"1 file, 4 B in {tmp_path}/out, checked",
    )
    assert (tmp_path / "out" / "pictures" / "1.png").read_bytes() == picture
    lines = user.run("run", "--json", "-o", tmp_path / "out", "--command", "draw").lines()
    assert [line["event"] for line in lines] == ["files", "finished"]
    assert lines[0]["files"][0]["path"] == "pictures/1.png"
    server.plays(f"/v1/tasks/{end.id}", says(end))
    server.plays(f"/v1/tasks/{end.id}/logs", Scene(404))
    server.plays("/v1/tasks", says(TaskPage([end])))
    files_result = user.run("files")
    assert files_result.stdout.decode().splitlines()[1].split() == [
        *("pictures/1.png", "4", "B", named_file.blob.sha256[:16])
    ]
    summary = f"1 file, 4 B of attempt 1. `potluck result {end.id[-8:]} -o DIR` downloads them.\n"
    assert files_result.stderr == summary
    of_an_array = TaskFiles(None, [named_file], kept_until=datetime(2126, 12, 16, 12, tzinfo=UTC))
    server.plays(f"/v1/tasks/{end.id}/files", says(of_an_array))
    assert user.run("files").stderr.startswith("1 file, 4 B, kept until 2126-12-16. ")


def test_templates_are_listed_and_described(user: CommandLine) -> None:
    listing = user.run("templates").stdout.decode()
    assert "mandelbrot" in listing and "k-means" in listing
    (document,) = user.run("templates", "--json").lines()
    names = [template["name"] for template in document["templates"]]
    assert names == sorted(names)
    output = user.run("templates", "mandelbrot").stdout.decode()
    assert "potluck run --template mandelbrot -p width=1200" in output
    (document,) = user.run("templates", "mandelbrot", "--json").lines()
    assert document["parameters"]["width"]["default"] == 1200
