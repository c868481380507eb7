"""What a notebook shows: progress that goes on, pictures and tables, and nothing that does harm."""

import base64
import hashlib
import io
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from potluck.consumer import Potluck, Result
from potluck.consumer.functions.progress import (
    VARIABLE,
    MapProgress,
    NoProgress,
    ProgressWatch,
    TerminalMeter,
    choose_meter,
)
from potluck.model.blob import BlobRef, NamedFile
from potluck.model.task import TaskState
from potluck.wire.files import TaskFiles
from tests.consumer.fake_node import FakeNode, runs
from tests.consumer.fake_server import FakeServer, Scene, a_task, says
from tests.consumer.functions.test_executor import Gate
from tests.consumer.test_client import HASTE
from tests.local.test_media_size import png
from tests.processes import ServerProcess, await_true

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="1"><script>alert(1)</script></svg>'
LEFT = {
    "<b>plot</b>.png": png(4, 3),
    "drawn.svg": SVG,
    "not.png": b"<script>alert(1)</script>",
    "t.csv": b"name,<i>score</i>\n" + b"a,1\n" * 20,
    "large.jpg": b"",  # said to have more bytes than anybody shows
    "notes.txt": b"well",
}


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[tuple[Result, FakeServer]]:
    with FakeServer().running() as fake, Potluck(fake.url, "secret", HASTE) as client:
        task = a_task(TaskState.SUCCEEDED, name="<script>x</script>", charge_micro=5)
        fake.plays(f"/v1/tasks/{task.id}", says(task))
        fake.plays(f"/v1/tasks/{task.id}/files", says(TaskFiles(1, _named(fake))))
        yield client.results.get(task.id), fake


def _named(fake: FakeServer) -> list[NamedFile]:
    named_files = []
    for path, data in LEFT.items():
        digest = hashlib.sha256(data).hexdigest()
        fake.plays(f"/v1/blobs/{digest}", Scene(200, data))
        size = 2**30 if path == "large.jpg" else len(data)
        named_files.append(NamedFile(path, BlobRef(digest, size)))
    return named_files


def test_a_picture_is_shown_as_one(shown: tuple[Result, FakeServer]) -> None:
    files = shown[0].files
    bundle = files["<b>plot</b>.png"]._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == png(4, 3)
    assert "<b>" not in bundle["text/html"] and "ResultFile" in bundle["text/plain"]


def test_files_that_may_hold_scripts_are_shown_safely(shown: tuple[Result, FakeServer]) -> None:
    files = shown[0].files
    drawing = files["drawn.svg"]._repr_mimebundle_()
    assert set(drawing) == {"text/plain", "text/html"}, "a page would run what is in it"
    assert drawing["text/html"].startswith("<img src='data:image/svg+xml;base64,")
    lie = files["not.png"]._repr_mimebundle_()
    assert set(lie) == {"text/plain", "text/html"} and "It is not a picture" in lie["text/html"]
    for html in (files._repr_html_(), shown[0]._repr_html_()):
        assert "<script" not in html and "<b>" not in html and "&lt;b&gt;plot" in html
        assert html.count("<img src='data:image/") == 2


def test_a_table_is_previewed(shown: tuple[Result, FakeServer]) -> None:
    html = shown[0].files["t.csv"]._repr_mimebundle_()["text/html"]
    assert "<td>name</td><td>&lt;i&gt;score&lt;/i&gt;</td>" in html
    assert html.count("<tr>") == 10 and "… and 11 more lines" in html


def test_large_or_unviewable_files_are_not_fetched(shown: tuple[Result, FakeServer]) -> None:
    result, fake = shown
    assert len(result.files) == len(LEFT)
    request_count = len(fake.requests)
    for name in ("large.jpg", "notes.txt"):
        assert set(result.files[name]._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert len(fake.requests) == request_count


def test_a_server_that_is_away_costs_no_traceback(shown: tuple[Result, FakeServer]) -> None:
    result, fake = shown
    task_id = result.task_id
    fake.plays(f"/v1/tasks/{task_id}/files", Scene(404))
    assert "succeeded" in result._repr_html_()


FAR = MapProgress("norm", 12, 2, 40, 100, 10.0)


def test_map_progress_is_shown_as_text() -> None:
    assert FAR.text == "norm: 12 of 100 items, 2 failed, 1.2 a second"
    unknown = MapProgress("norm", 12, 0, 40, None, 0.1)
    assert unknown.text == "norm: 12 of 40 items so far"
    assert 'value="12" max="100"' in FAR.picture.html
    assert "<progress style" in unknown.picture.html, "nobody knows how far it is"
    hostile = MapProgress("<script>", 1, 0, 1, 1, 0.1, is_over=True)
    assert "<script>" not in hostile.picture.html


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_in_a_terminal_and_silence_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(choose_meter(None), NoProgress), "nobody looks"
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_meter(False), NoProgress)
    monkeypatch.setenv(VARIABLE, "off")
    assert isinstance(choose_meter(True), NoProgress)
    monkeypatch.delenv(VARIABLE)
    meter = choose_meter(None)
    assert isinstance(meter, TerminalMeter)
    meter.show(FAR)
    meter.end(FAR)
    assert "norm: 12 of 100 items" in terminal.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_meter(None), NoProgress)


def test_quick_steps_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    watch = ProgressWatch(None)
    assert not watch.is_silent and not watch.is_due
    watch.end(FAR)
    assert terminal.getvalue() == ""


CELLS = [
    """
    import time, potluck
    from potluck.consumer.functions import progress
    progress._UNNOTICED_SECONDS = 0.0

    @potluck.task
    def twice(number):
        return 2 * number
    """,
    "list(twice.map(range(20)))",
    "twice.submit(21)",
    "await twice.submit(4)",
    "twice.using(progress=False).map([1])",
    "[value async for value in twice.map([5])]",
    """
    future = twice.submit(3)
    result = potluck.Potluck().results.get(await future and future.task_id)
    result
    """,
    "result.wait(30).value",
]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[tuple[ServerProcess, FakeNode]]:
    with (
        ServerProcess(tmp_path / "server") as server,
        FakeNode(server, "notebook").working() as node,
    ):
        node.accepts_refusals = True
        yield server, node


@pytest.mark.timeout(120)
def test_a_real_notebook(
    pool: tuple[ServerProcess, FakeNode], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a real kernel, which runs an event loop where cells are."""
    server, node = pool
    gate = Gate()
    node.answers = gate
    monkeypatch.setenv("POTLUCK_URL", server.url)
    monkeypatch.setenv("POTLUCK_TOKEN", server.token)
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    v4: Any = nbformat.v4
    book = v4.new_notebook(cells=[v4.new_code_cell(_dedented(cell)) for cell in CELLS])
    client = nbclient.NotebookClient(book, timeout=60, kernel_name="python3")
    cell_outputs: list[Any] = []
    with client.setup_kernel():
        client.execute_cell(book.cells[0], 0)
        _open_when(gate, node)  # the map is at work, and shows so, before there is any result
        for number, cell in enumerate(book.cells[1:], 1):
            client.execute_cell(cell, number)
            cell_outputs.append(cell.outputs)
    map_output, future, awaited, closed, iterated, result, value = cell_outputs
    assert "20 items" in map_output[0]["data"]["text/html"], map_output
    assert "<progress" in map_output[0]["data"]["text/html"]
    assert map_output[-1]["data"]["text/plain"].startswith("[0, 2, 4")
    stages = ("twice (task_", "being submitted", "done: 42")
    assert any(stage in future[0]["data"]["text/plain"] for stage in stages)
    assert awaited[-1]["data"]["text/plain"] == "8"
    assert "twice: " in closed[0]["data"]["text/plain"]
    assert iterated[-1]["data"]["text/plain"] == "[10]"
    assert "<th style='text-align:left'>state</th>" in result[-1]["data"]["text/html"]
    assert value[-1]["data"]["text/plain"] == "6"


def _open_when(gate: Gate, node: FakeNode) -> None:
    def let_go() -> None:
        await_true(gate.is_met.is_set, "the map has reached the node")
        node.answers = runs()
        gate.is_open.set()

    threading.Thread(target=let_go, daemon=True).start()


def _dedented(cell: str) -> str:
    return textwrap.dedent(cell).strip()


def test_notebook_packages_are_not_imported_by_potluck() -> None:
    check = (
        "import sys, potluck; potluck.Executor, potluck.Potluck, potluck.aio;"
        " print({'IPython', 'rich', 'matplotlib', 'pyarrow'} & {*sys.modules})"
    )
    process = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"
