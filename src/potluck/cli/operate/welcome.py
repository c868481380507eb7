"""The next steps for a user when the platform is up."""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from potluck.cli.terminal.screen import Pane, Tone


def show_welcome(pane: Pane, url: str, has_provider: bool, join_line: str | None) -> None:
    """Shows addresses, the next command, and how others join. Shows no secret."""
    potluck = command_name()
    port = urlsplit(url).port
    pane.line()
    _show_address(pane, "dashboard", url)
    _show_address(pane, "API", url)
    _show_address(pane, "reference", f"{url}/docs")
    pane.line()
    _show_advice(pane, "Run a task:", f"{potluck} run examples/hello.py")
    join = (
        "Add another provider on this machine:" if has_provider else "Offer this machine's devices:"
    )
    _show_advice(pane, join, f"{potluck} provide {url}{' --data-dir DIR' if has_provider else ''}")
    _show_advice(
        pane,
        "Join from another machine, through a tunnel:",
        f"ssh -N -L {port}:127.0.0.1:{port} YOU@THIS-MACHINE",
        *((join_line,) if join_line else ()),
        f"potluck run --server {url} --template hello",
        note="this server listens on loopback only; see `potluck server --tls`",
    )
    pane.line("Ctrl-C stops everything.", Tone.FAINT)


def warn_about_profile(pane: Pane, before: str | None, url: str) -> None:
    """Warns when later commands go to another server than before."""
    if before not in (None, url):
        pane.line(
            f"Your commands used {before} before; from now on they use this server.", Tone.WAITING
        )


def warn_about_variables(pane: Pane, url: str) -> None:
    """Warns about variables that direct this shell's commands elsewhere."""
    configured = os.environ.get("POTLUCK_URL", url).rstrip("/")
    if configured != url:
        pane.line(
            f"POTLUCK_URL is set to {configured}, so commands from this shell go there;"
            " `unset POTLUCK_URL POTLUCK_TOKEN` directs them here.",
            Tone.WAITING,
        )
    elif os.environ.get("POTLUCK_TOKEN"):
        pane.line(
            "POTLUCK_TOKEN is set, so commands from this shell use that key;"
            " `unset POTLUCK_TOKEN` makes them use your wallet.",
            Tone.WAITING,
        )


def command_name() -> str:
    """The command that starts Potluck from the current shell."""
    if shutil.which("potluck"):
        return "potluck"
    path = Path(sys.argv[0])
    if path.name != "potluck":
        return f"{sys.executable} -m potluck"
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path.absolute())


def _show_address(pane: Pane, name: str, value: str) -> None:
    pane.line(f"  {pane.paint(name.ljust(10), Tone.FAINT)} {value}")


def _show_advice(pane: Pane, title: str, *commands: str, note: str = "") -> None:
    pane.line(f"  {title}")
    for command in commands:
        pane.line(f"    {pane.paint(command, Tone.STRONG)}")
    if note:
        pane.line(f"    {pane.paint(f'({note})', Tone.FAINT)}")
    pane.line()
