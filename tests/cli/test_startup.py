"""Help, completion and quick commands import nothing that is slow to import and not needed."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from potluck.cli.command_groups import EARLIER_NAMES, GROUPS
from potluck.cli.commands import ALIASES, COMMANDS
from potluck.cli.main import DeferredCommand, build_program
from potluck.cli.terminal.help_text import join_lines
from tests.architecture.repository_files import ROOT

SLOW = (
    *("Crypto", "aiohttp", "asyncpg", "coincurve", "litestar", "psutil", "pydantic", "pynvml"),
    *("rich", "structlog", "tomlkit", "uvloop"),
)
NETWORK = "urllib3"
SHOW_MODULES = """
import atexit, json, os, sys
atexit.register(lambda: os.write(2, json.dumps(sorted(sys.modules)).encode()))
from potluck.cli.main import main
main()
"""


def modules_of(*arguments: str, **variables: str) -> set[str]:
    process = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | variables,
    )
    return set(json.loads(process.stderr[process.stderr.rindex("[") :]))


@pytest.mark.parametrize("arguments", [[], ["--help"], ["run", "--help"], ["keys", "--help"]])
def test_help_imports_neither_slow_modules_nor_the_network(arguments: list[str]) -> None:
    assert not modules_of(*arguments) & {*SLOW, NETWORK}


def test_help_imports_no_command() -> None:
    assert not {name for name in modules_of("--help") if name.startswith("potluck.cli.tasks")}


@pytest.mark.parametrize("arguments", [["ps"], ["status"], ["logs", "x"], ["balance"]])
def test_quick_commands_import_no_slow_modules(arguments: list[str]) -> None:
    modules = modules_of(*arguments, POTLUCK_URL="http://127.0.0.1:9", POTLUCK_TOKEN="pot_key")
    assert NETWORK in modules
    assert not modules & {*SLOW}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_imports_no_slow_modules(shell: str) -> None:
    variables = {
        "_POTLUCK_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "potluck r",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "potluck r",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert not modules_of(**variables) & {*SLOW, NETWORK}


def test_summaries_are_those_of_the_functions() -> None:
    program = build_program()
    commands = [part for part in program.commands.values() if isinstance(part, DeferredCommand)]
    for group in GROUPS:
        place = program if group.parent is None else program.commands[group.parent]
        parts = place.commands[group.name].commands.values()  # type: ignore[attr-defined]
        commands += [part for part in parts if isinstance(part, DeferredCommand)]
    rows = [row for rows in COMMANDS.values() for row in rows]
    earlier = sum(map(len, EARLIER_NAMES.values()))
    in_groups = sum(len(group.commands) for group in GROUPS)
    assert len(commands) == len([*rows, *ALIASES]) + in_groups + earlier
    for command in commands:
        docstring = join_lines(command.load().help) or ""
        assert docstring.partition("\n\n")[0] == command.help, command.name


# Presses Ctrl-C when this module is about to be imported.
INTERRUPT = """
import os, signal, sys
interrupted = sys.argv.pop(1)
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == interrupted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize("module", ["typer", "potluck.cli.commands", "potluck.cli.tasks.ps"])
def test_ctrl_c_during_the_start_shows_no_traceback(module: str) -> None:
    program = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["potluck"]
    start, _, function = program.partition(":")
    source = f"{INTERRUPT}from {start} import {function}\n{function}()"
    process = subprocess.run(
        [sys.executable, "-c", source, module, "ps"], capture_output=True, text=True
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "")
