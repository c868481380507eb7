"""The examples of docs/python.md do what the page says, against a real server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.lease import Lease
from potluck.model.task_spec import FunctionSpec
from potluck.wire.codec import encode_packed
from potluck.wire.files import AddedFile, AddFiles
from potluck.wire.provider import Grant, Report
from tests.consumer.fake_node import FakeNode, runs
from tests.local.test_media_size import png
from tests.processes import ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
MARK = "--- the next example ---"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    limits = {"memory": "watchdog", "processes": "watchdog"}
    sandbox = {
        "driver": "bwrap",
        "kinds": ["function"],
        **limits,
    }  # a script waits, and is called off
    with (
        ServerProcess(tmp_path_factory.mktemp("server")) as server,
        FakeNode(server, "documented", sandbox=sandbox).working() as node,
    ):
        node.answers = _Draws(node)
        yield server


class _Draws:
    """Calls functions, and leaves a picture for the one that says that it draws."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._run = runs()

    def __call__(self, grant: Grant, lease: Lease) -> list[Report]:
        if isinstance(grant.spec, FunctionSpec) and grant.spec.name == "draw":
            files = AddFiles(lease, (AddedFile("0/plot.png", png(4, 3)),))
            self._node.add_files(encode_packed(files))
        return self._run(grant, lease)


def test_every_example(pool: ServerProcess, tmp_path: Path) -> None:
    examples = EXAMPLE.findall(PAGE.read_text())
    assert len(examples) >= 7
    program = tmp_path / "examples.py"
    program.write_text(f"\nprint({MARK!r})\n".join(code for code, _ in examples))
    own_variables = {"POTLUCK_URL": pool.url, "POTLUCK_TOKEN": pool.token}
    process = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, **own_variables, "POTLUCK_CONFIG_DIR": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.split(f"{MARK}\n") == [printed for _, printed in examples]


def test_every_example_says_what_it_prints() -> None:
    silent = [code for code, printed in EXAMPLE.findall(PAGE.read_text()) if not printed]
    assert silent == []
