"""What somebody can do now that the platform is up."""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from potluck.cli.terminal.screen import Pane, Tone


def show_welcome(pane: Pane, url: str, has_provider: bool, join_line: str | None) -> None:
    """Addresses, the next command, and how others join. No secret is shown."""
    potluck = program()
    port = urlsplit(url).port
    pane.line()
    _fact(pane, "API", url)
    _fact(pane, "reference", f"{url}/docs")
    pane.line()
    _advice(pane, "Run something:", f"{potluck} run examples/hello.py")
    join = "Join from this machine too:" if has_provider else "Bring this machine's devices:"
    _advice(pane, join, f"{potluck} provide {url}{' --data-dir DIR' if has_provider else ''}")
    _advice(
        pane,
        "Join from another machine, through a tunnel:",
        f"ssh -N -L {port}:127.0.0.1:{port} YOU@THIS-MACHINE",
        *((join_line,) if join_line else ()),
        f"potluck run --server {url} --template hello",
        note="this server listens on loopback only; `potluck server` has --tls for more",
    )
    pane.line("Ctrl-C stops everything.", Tone.FAINT)


def tell_of_profile(pane: Pane, before: str | None, url: str) -> None:
    """Commands that spoke to another server until now should not change sides in silence."""
    if before not in (None, url):
        pane.line(
            f"Your commands spoke to {before} before; from now on they speak to this one.",
            Tone.WAITING,
        )


def warn_of_variables(pane: Pane, url: str) -> None:
    """A shell that names another server, or a key, would be surprised by its own commands."""
    named = os.environ.get("POTLUCK_URL", url).rstrip("/")
    if named != url:
        pane.line(
            f"POTLUCK_URL is set to {named} here, so commands from this shell go there;"
            " `unset POTLUCK_URL POTLUCK_TOKEN` brings them here.",
            Tone.WAITING,
        )
    elif os.environ.get("POTLUCK_TOKEN"):
        pane.line(
            "POTLUCK_TOKEN is set here, so commands from this shell speak with that key;"
            " `unset POTLUCK_TOKEN` lets them speak as your wallet.",
            Tone.WAITING,
        )


def program() -> str:
    """How to call us from the shell that somebody has open now."""
    if shutil.which("potluck"):
        return "potluck"
    beside = Path(sys.argv[0])
    if beside.name != "potluck":
        return f"{sys.executable} -m potluck"
    try:
        return str(beside.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(beside.absolute())


def _fact(pane: Pane, name: str, value: str) -> None:
    pane.line(f"  {pane.paint(name.ljust(10), Tone.FAINT)} {value}")


def _advice(pane: Pane, wish: str, *commands: str, note: str = "") -> None:
    pane.line(f"  {wish}")
    for command in commands:
        pane.line(f"    {pane.paint(command, Tone.STRONG)}")
    if note:
        pane.line(f"    {pane.paint(f'({note})', Tone.FAINT)}")
    pane.line()
