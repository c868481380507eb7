"""`potluck` alone, and the help of its commands: what people read first."""

import re

import pytest

from potluck.cli.main import build_program
from tests.cli.command_line import CommandLine

ROW = re.compile(r"^│ ([a-z]+) +(\S.*?) *│$", re.MULTILINE)


@pytest.fixture
def reader(stranger: CommandLine) -> CommandLine:
    stranger.variables["COLUMNS"] = "80"
    return stranger


def test_every_command_is_one_line(reader: CommandLine) -> None:
    result = reader.run()
    assert result.status == 0
    page = result.stdout.decode()
    rows = dict(ROW.findall(page))
    assert set(rows) == {name for name, part in build_program().commands.items() if not part.hidden}
    assert all(help_text.endswith(".") for help_text in rows.values()), "no sentence goes on below"
    panels = re.findall(r"╭─ ([^─]+) ─", page)
    assert panels == [
        "Options",
        "Run tasks",
        "Watch tasks",
        "Get results",
        "Browse the pool",
        "My account",
        "My machines",
        "Run a pool",
    ]


@pytest.mark.parametrize("command", ["run", "gpus", "top", "logs", "ps", "up"])
def test_help_speaks_of_no_types(reader: CommandLine, command: str) -> None:
    page = reader.run(command, "--help").stdout.decode()
    assert not re.search(r"<(bool|int|str|float|list|path)", page)
    assert "x<=" not in page
    paragraph = [line for line in page.splitlines() if line.startswith(" ") and line.strip()]
    assert all(len(line) <= 80 for line in paragraph)


def test_choices_are_named(reader: CommandLine) -> None:
    page = " ".join(reader.run("gpus", "--help").stdout.decode().replace("│", " ").split())
    assert "Sort by this: free, price, memory, reliability, model." in page
