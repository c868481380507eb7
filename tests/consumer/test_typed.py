"""What a type checker says of a program that uses the client: all of it is known, and right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import potluck

# Behind each line that reveals a type, the type.
PROGRAM = """
import asyncio
from collections.abc import Sequence
from concurrent import futures

import potluck
from potluck import aio


@potluck.task(gpu=True, vram="24GB", ram="2GiB", dependencies=["numpy"])
def norm(size: int, scale: float = 1.0) -> float:
    return size * scale


@potluck.task
def name() -> str:
    return "x"


reveal_type(norm(3))  # float
reveal_type(norm.submit(3))  # TaskFuture[float]
reveal_type(norm.submit(3, scale=2.0).result())  # float
reveal_type(norm.map([1, 2, 3]))  # TaskMap[float]
reveal_type(norm.map([1], return_exceptions=True))  # TaskMap[float | PotluckError]
reveal_type(name.submit().result())  # str
norm.submit("3")  # error: incompatible type "str"; expected "int"
norm.using(gpus=1)  # error: Unexpected keyword argument "gpus"


def program(executor: futures.Executor) -> list[int]:
    return [future.result() for future in [executor.submit(pow, 2, 3)]]


with potluck.Executor(gpu=1) as executor:
    reveal_type(executor.submit(norm, 3))  # TaskFuture[float]
    reveal_type(executor.submit(len, "abc").result())  # int
    reveal_type(executor.map(len, ["a"]))  # Iterator[int]
    program(executor)


async def main() -> None:
    reveal_type(await norm.submit(3))  # float
    async for value in norm.map(range(3)):
        reveal_type(value)  # float
    with potluck.Potluck() as client:
        reveal_type(await aio.call(client.tasks.get, "task"))  # TaskView
        async for entry in aio.each(client.ledger.entries()):
            reveal_type(entry.available_micro)  # int
        async for event in client.events.follow():
            reveal_type(event)  # EventView | EventGap


with potluck.Potluck() as client:
    result = client.results.get("task").wait(timeout=3)
    reveal_type(result)  # Result
    reveal_type(result.value)  # Any
    reveal_type(result.files[0].read_bytes())  # bytes
    reveal_type(result.files.download("out"))  # list[Path]
    reveal_type(result.stdout)  # str
    reveal_type(result.usage)  # Usage | None
    reveal_type(result.kept_until)  # datetime | None
    reveal_type(result.cost)  # float
    reveal_type(client.ledger.balance().held_micro)  # int
    found: Sequence[object] = client.resources.nodes()
"""


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(potluck.__file__).parent / "py.typed").exists()


@pytest.mark.timeout(120)
def test_a_program_is_checked_strictly(tmp_path: Path) -> None:
    """Types are told in the short form of their names; without the cache it takes a while."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    options = ["--strict", "--no-error-summary", "--no-pretty", "--hide-error-context"]
    cached = [
        "--config-file",
        str(root / "pyproject.toml"),
        "--cache-dir",
        str(root / ".mypy_cache"),
    ]
    command = [sys.executable, "-m", "mypy", *options, *cached, str(program)]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert process.stderr == ""
    assert _told(process.stdout) == _expected(PROGRAM)


def _expected(program: str) -> dict[int, str]:
    lines = enumerate(program.splitlines(), 1)
    return {number: line.partition("  # ")[2] for number, line in lines if "  # " in line}


def _told(output: str) -> dict[int, str]:
    """By line: a revealed type without its modules, or the error that it should be."""
    types_by_line: dict[int, str] = {}
    for line in output.splitlines():
        _, number, kind, text = line.split(":", 3)
        if "Revealed type is" in text:
            types_by_line[int(number)] = _short(text.partition('"')[2].rstrip('"'))
        elif kind.strip() == "error":
            types_by_line[int(number)] = _as_expected(text.strip(), int(number))
    return types_by_line


def _as_expected(error: str, number: int) -> str:
    expected = _expected(PROGRAM).get(number, "")
    return expected if expected.removeprefix("error: ") in error and expected else error


def _short(name: str) -> str:
    return re.sub(r"[\w.]+\.", "", name)
