"""`potluck provider status`: a machine on one screen, once or repeatedly."""

import time
from typing import Annotated

import typer

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.dashboard import show_machine
from potluck.cli.provider.target import CommandTarget, NodeOption, open_target
from potluck.cli.terminal.screen import Screen

_WATCH_SECONDS = 2.0
_HOME_AND_CLEAR = b"\x1b[H\x1b[2J"


def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every two seconds, until Ctrl-C.")
    ] = False,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show devices, whether they take work and why not, and running tasks."""
    screen = Screen(json)
    with open_target(node, server, data_dir) as machine:
        if not watch:
            _show(screen, machine)
            return
        try:
            _watch(screen, machine)
        except KeyboardInterrupt:
            screen.err.line()


def _watch(screen: Screen, machine: CommandTarget) -> None:
    while True:
        if screen.out.is_live and not screen.json:
            screen.out.write_bytes(_HOME_AND_CLEAR)
        _show(screen, machine)
        time.sleep(_WATCH_SECONDS)


def _show(screen: Screen, machine: CommandTarget) -> None:
    view, report = machine.view()
    if screen.json:
        screen.emit(report)
    else:
        show_machine(screen.out, view)
