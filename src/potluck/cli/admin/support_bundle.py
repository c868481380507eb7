"""`potluck admin support-bundle`: an archive for those who look for a fault."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.admin.local_server import LocalServerOptions, read_local_settings, run_locally
from potluck.cli.options import JsonOption, expand_option_groups
from potluck.cli.terminal.screen import Screen
from potluck.local.data_directory import data_dir_of
from potluck.model.units import show_bytes


@expand_option_groups
def support_bundle(
    options: LocalServerOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The archive to write; it must not exist.",
            show_default="potluck-support-TIME.tar.gz",
        ),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A log of the server; repeatable. The logs of `potluck up` and of the embedded"
            " PostgreSQL are found.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Collect diagnostics in one archive, without secrets.

    Run it on the server's machine, with the server's --data-dir. Its address and its settings are
    those of its last start. A PostgreSQL of your own has to be named again.
    """
    screen = Screen(json)
    settings = read_local_settings(options)
    from potluck.server.stored_data import check_server_exists
    from potluck.server.support.bundle import SupportBundle
    from potluck.server.support.last_start import read_last_start

    if read_last_start(settings.data_directory) is None:
        check_server_exists(settings)

    path = output or Path(f"potluck-support-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    logs = [*(log or ()), *_known_logs(settings.data_directory)]
    bundle = SupportBundle(settings, logs)
    parts = run_locally(bundle.write(path))
    if json:
        screen.emit({"path": str(path), "parts": parts, "failures": bundle.failures})
        return
    screen.out.line(f"{path}: {len(parts)} parts, {show_bytes(path.stat().st_size)}.")
    for name, why in bundle.failures.items():
        screen.err.prose(f"Without {name}: {why}")
    screen.err.prose("Passwords, keys and tokens were removed. Read it before you send it on.")


def _known_logs(directory: Path) -> list[Path]:
    logs = sorted((data_dir_of(directory) / "logs").glob("server.log*"))
    return [*logs, *sorted((directory / "postgres" / "log").glob("*.log"))]
