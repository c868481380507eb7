"""Takes the pictures of docs/terminal.md and of the dashboard anew: `make captures`.

The commands are ours and real, the terminal is tmux; the pool is played by the tests' fake server,
so that there are GPUs on every machine, and nothing of that machine is in a picture. For the
operator's screen it is a real one, under load.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.captures.busy_pool import busy_pool
from tests.captures.dashboard import take_dashboard
from tests.captures.scripted_pool import PORT, ScriptedPool
from tests.captures.svg import DARK, LIGHT, Look, drawn
from tests.captures.tmux import Tmux
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer

CAPTURES = Path(__file__).resolve().parents[2] / "docs" / "captures"
_LOOKS = {"dark": DARK, "light": LIGHT}
Act = Callable[[Tmux, ScriptedPool], None]
Take = tuple[int, int, Look, bool]  # columns, lines, look, colours


def top(terminal: Tmux, _: ScriptedPool) -> None:
    terminal.type("potluck top")
    terminal.until("? Help")
    terminal.until("render.py")


def ps(terminal: Tmux, _: ScriptedPool) -> None:
    terminal.type("potluck ps")
    terminal.prompt()
    terminal.type("potluck gpus --vram 20GB --sort price")
    terminal.prompt()


def run(terminal: Tmux, played: ScriptedPool) -> None:
    terminal.type("potluck run --gpu 1 --vram 24GB train.py")
    terminal.until("epoch 3")
    terminal.press("C-c")
    terminal.until("[d]etach")
    terminal.press("Enter")
    played.go_on.set()
    terminal.prompt()
    terminal.type("potluck run --array 200 sweep.py")
    terminal.until("122 of 200")


def status(terminal: Tmux) -> None:
    terminal.type("potluck admin status")
    terminal.until("ledger")
    terminal.prompt()


# The operator's screen.
STATUS = ("status-100-dark", 100, 24, "dark", True)
# name, what is done, columns, lines, look, colours
PICTURES: list[tuple[str, Act, int, int, str, bool]] = [
    ("top-80-dark", top, 80, 24, "dark", True),
    ("top-80-light", top, 80, 24, "light", True),
    ("top-200-light", top, 200, 30, "light", True),
    ("top-80-plain", top, 80, 24, "dark", False),
    ("ps-80-dark", ps, 80, 24, "dark", True),
    ("ps-200-light", ps, 200, 24, "light", True),
    ("ps-80-plain", ps, 80, 24, "light", False),
    ("run-80-dark", run, 80, 24, "dark", True),
    ("run-80-light", run, 80, 24, "light", True),
    ("run-200-light", run, 200, 24, "light", True),
    ("run-80-plain", run, 80, 24, "dark", False),
]


def main(prefixes: list[str]) -> None:
    CAPTURES.mkdir(exist_ok=True)
    for name, act, columns, lines, look_name, has_colours in PICTURES:
        if _is_wanted(name, prefixes):
            with FakeServer(PORT).running() as server:
                picture = taken(server, act, (columns, lines, _LOOKS[look_name], has_colours))
            _keep(name, picture)
    name, columns, lines, look_name, has_colours = STATUS
    if _is_wanted(name, prefixes):
        with busy_pool() as pool:
            take = (columns, lines, _LOOKS[look_name], has_colours)
            _keep(name, _taken_at(pool.url, pool.token, status, take))
    if _is_wanted("dashboard", prefixes):
        take_dashboard(CAPTURES)


def _is_wanted(name: str, prefixes: list[str]) -> bool:
    return not prefixes or any(name.startswith(prefix) for prefix in prefixes)


def _keep(name: str, picture: str) -> None:
    (CAPTURES / f"{name}.svg").write_text(picture)
    print(name)


def taken(server: FakeServer, act: Act, take: Take) -> str:
    played = ScriptedPool(server)
    return _taken_at(server.url, "secret", lambda terminal: act(terminal, played), take)


def _taken_at(url: str, token: str, act: Callable[[Tmux], None], take: Take) -> str:
    columns, lines, look, has_colours = take
    # A shell that ends may write its history while all of it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory_name:
        directory = Path(directory_name)
        for script in ("train.py", "sweep.py"):
            (directory / script).write_text("print('hello')\n")
        user = CommandLine(directory / "config", url, token)
        variables = {
            **{name: value for name, value in user.variables.items() if name != "NO_COLOR"},
            **({} if has_colours else {"NO_COLOR": "1"}),
            "PATH": f"{Path(sys.executable).parent}:{user.variables['PATH']}",
            "PS1": "$ ",
            "PWD": directory_name,
            "HOME": directory_name,
            "LANG": "C.UTF-8",
            "BASH_SILENCE_DEPRECATION_WARNING": "1",
        }
        with Tmux(directory, columns, lines, variables) as terminal:
            terminal.type(f"cd '{directory_name}' && clear")
            terminal.prompt()
            act(terminal)
            screen = terminal.seen()
    used = max(row for row in range(lines) if screen.display[row].strip()) + 1
    return drawn(screen, used, look)


if __name__ == "__main__":
    main(sys.argv[1:])
