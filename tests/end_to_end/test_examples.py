"""Every example on the real platform, as its header says to run it; or why not, or where else.

One platform serves them all. Nothing comes from the network: the index is on loopback, and has what
is installed here.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import urllib3
from msgspec import Struct

from potluck.wire import routes
from tests.cli.command_line import CommandLine, Finished, InProcess
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true, free_port
from tests.provider.dependencies.package_index import loopback_index
from tests.provider.dependencies.repacked_wheels import offer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PACKAGES = ("rich", "markdown-it-py", "mdurl", "pygments")
EPOCHS = 10


class Run(Struct, frozen=True):
    """A command and what it prints. `python` is our own; without it, it is a command of ours."""

    words: tuple[str, ...]
    prints: str  # a pattern, for all of stdout
    leaves: tuple[str, ...] = ()
    where: str = "."  # below the examples


RUNS = {
    "hello.py": Run(
        ("run", "hello.py", "Ada", "Grace"), r"Hello, Ada!\nHello, Grace!\nThis is Python 3.*\n"
    ),
    "dependencies.py": Run(
        ("run", "dependencies.py"),
        r"\s+Factorials\s+┏[\s\S]+15,511,210,043,330,985,984,000,000[\s\S]+",
    ),
    "estimate_pi.py": Run(
        ("python", "estimate_pi.py", "50"), r"50,000 darts: pi is about 3\.1\d+\n"
    ),
    "mandelbrot.py": Run(
        ("python", "mandelbrot.py", "60", "40", "OUT/set.png"),
        r"\S+set\.png: 60 × 40, \d\d\.\d % inside\n",
        ("set.png",),
    ),
    "executor.py": Run(("python", "executor.py", "10000"), r"1,229 primes below 10,000\n"),
    "many_calls.py": Run(
        ("python", "many_calls.py", "300"), r"300 calls: \d+ texts are positive\n"
    ),
    "threads.py": Run(
        ("python", "threads.py", "8", "100"),
        r"8 threads, 100 calls: the sum of all squares is 328,350\n",
    ),
    "with_asyncio.py": Run(
        ("python", "with_asyncio.py"),
        r"[\s\S]*7! is 5040\n[\s\S]*the sum of 100 squares is 328350\n",
    ),
    "count_words": Run(
        ("python", "-m", "potluck", "map", "texts/*.txt", "count_words.py"),
        r"texts/rain.txt: 34 words, most often: the \(7\)\n.+\n.+\n",
        where="count_words",
    ),
}
# Run by a test of its own, or where all that it needs is up already.
ELSEWHERE = {
    "train_with_checkpoint.py": "tests/end_to_end/test_examples.py",
    "webhook_receiver.py": "tests/end_to_end/test_examples.py",
    "hello_gpu.py": "tests/end_to_end/test_templates.py",
    "container.sh": "tests/provider/sandbox/docker/test_provider.py",
    "policy": "tests/simulate/test_own_policy.py",
}
EXCUSED = {
    "train_with_torch.py": "no test downloads PyTorch; it runs where PyTorch is installed, and"
    " train_with_checkpoint.py shows the same way to go on"
}


class Platform(Struct, frozen=True):
    server: ServerProcess
    directory: Path
    settings: dict[str, str]
    hook_port: int  # where webhooks may go

    def person(self, kind: type[CommandLine] = InProcess) -> CommandLine:
        return kind(self.directory / "config", self.server.url, self.server.token)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    with ExitStack() as stack:
        index = stack.enter_context(loopback_index())
        offer(index, *PACKAGES)
        port = free_port()
        allowed = f"127.0.0.1:{port}"
        server = stack.enter_context(ServerProcess(tmp_path, POTLUCK_WEBHOOK_ALLOW=allowed))
        settings = {**FAST_PROVIDER, "POTLUCK_PROVIDER_INDEX_URL": index.url}
        yield Platform(server, tmp_path, settings, port)


def test_the_examples_do_what_they_say(platform: Platform, tmp_path: Path) -> None:
    with ProviderProcess(tmp_path / "node", platform.server, **platform.settings) as node:
        with receiver(platform) as receiving:
            for name, example in RUNS.items():
                run_example(platform.person(), name, example, tmp_path / "out")
            assert receiving.stdout is not None
            lines = [receiving.stdout.readline() for _ in range(2)]
            assert lines == ["hello.py: succeeded\n", "dependencies.py: succeeded\n"]
        train_and_interrupt(platform, node, tmp_path / "trained")


@contextmanager
def receiver(platform: Platform) -> "Iterator[subprocess.Popen[str]]":
    """The example that is told of each end, at work. It believes nobody but the server."""
    address = f"http://127.0.0.1:{platform.hook_port}/hook"
    webhook_request = {"url": address, "kinds": ["task.finished"]}
    webhook = platform.server.client().post(routes.MAKE_WEBHOOK.path, webhook_request)
    command = [sys.executable, "-u", str(EXAMPLES / "webhook_receiver.py"), str(platform.hook_port)]
    with subprocess.Popen(
        command,
        cwd=platform.directory,
        env={**os.environ, "POTLUCK_WEBHOOK_SECRET": webhook["secret"]},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            await_true(lambda: is_open(platform.hook_port), "the receiver listens")
            forged = urllib3.request("POST", address, body=b"{}", retries=False)
            assert forged.status == 400
            yield running
        finally:
            running.kill()


def is_open(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def run_example(person: CommandLine, name: str, example: Run, output: Path) -> None:
    output.mkdir(exist_ok=True)
    program, *words = (word.replace("OUT", str(output)) for word in example.words)
    words = [str(EXAMPLES / word) if word == name else word for word in words]
    directory = EXAMPLES / example.where
    result = (
        python(person, directory, *words) if program == "python" else person.run(program, *words)
    )
    assert result.status == 0, f"{name}: {result.stderr}"
    assert re.fullmatch(example.prints, result.stdout.decode()), f"{name}: {result.stdout!r}"
    missing = [left_name for left_name in example.leaves if not (output / left_name).stat().st_size]
    assert not missing, f"{name} left no {missing}"


def python(person: CommandLine, directory: Path, *arguments: str) -> Finished:
    command = [sys.executable, *arguments]
    process = subprocess.run(
        command, cwd=directory, env=person.variables, capture_output=True, timeout=60
    )
    return Finished(process.returncode, process.stdout, process.stderr.decode())


def train_and_interrupt(platform: Platform, node: ProviderProcess, output: Path) -> None:
    """The node is killed in the middle; the next attempt begins where a checkpoint was."""
    script = EXAMPLES / "train_with_checkpoint.py"
    arguments = ("--checkpoint", "0.1s", "--output", output, script)
    place, lines = platform.directory / "node", []
    with ExitStack() as stack:
        running = stack.enter_context(
            platform.person(CommandLine).start(
                "run", *arguments, f"--epochs={EPOCHS}", "--seconds=0.15"
            )
        )
        stack.callback(running.kill)
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line.decode().strip())
            if lines[-1].startswith("epoch 5:") and node.process.returncode is None:
                node.kill()
                second_provider = ProviderProcess(place, platform.server, **platform.settings)
                stack.enter_context(second_provider)
        assert running.wait(30) == 0
    epochs = [int(line.split()[1].rstrip(":")) for line in lines if line.startswith("epoch")]
    (went_on,) = [line for line in lines if line.startswith("continues after")]
    kept_epoch = int(went_on.split()[-1])
    assert 1 <= kept_epoch <= 6
    assert epochs[-(EPOCHS - kept_epoch) :] == list(range(kept_epoch + 1, EPOCHS + 1)), epochs
    assert (output / "line.txt").read_text() == "y = 3.00 x + -1.01\n"


def examples() -> set[str]:
    ignored = {"README.md", "__pycache__"}
    return {path.name for path in EXAMPLES.iterdir() if path.name not in ignored}


def test_each_example_is_run_or_excused() -> None:
    listed_examples = {*RUNS, *ELSEWHERE, *EXCUSED}
    assert examples() == listed_examples, "run it here, say where it is run, or why it cannot be"
    for name, place in ELSEWHERE.items():
        assert Path(name).stem in (ROOT / place).read_text(), f"{place} runs no {name}"


def test_each_example_is_on_the_page_and_says_how_to_run_it() -> None:
    page = (EXAMPLES / "README.md").read_text()
    for name in examples():
        assert f"[{name}](" in page, f"examples/README.md says nothing of {name}"
        path = EXAMPLES / name
        if path.is_dir():
            path = next(path.glob("*.py"))
        assert f"examples/{name}" in path.read_text()[:1000], f"{name}: how is it run?"


def test_the_pytorch_example_continues_from_its_checkpoint(tmp_path: Path) -> None:
    """Only where PyTorch is installed: without the platform, its own part of it."""
    pytest.importorskip("torch", reason=EXCUSED["train_with_torch.py"])
    variables = {"POTLUCK_CHECKPOINT": str(tmp_path), "POTLUCK_OUTPUT": str(tmp_path)}
    script = str(EXAMPLES / "train_with_torch.py")
    logs = [
        subprocess.check_output([sys.executable, script, epochs], env=variables, text=True)
        for epochs in ("2", "4")
    ]
    assert "continues after epoch 2\nepoch 3:" in logs[1]
    assert (tmp_path / "model.pt").exists()
