"""`potluck admin support-bundle`: an archive for those who look for a fault."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.admin.local_server import (
    LocalServerOptions,
    read_settings_of_existing,
    run_locally,
)
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
            help="A log of the server; repeatable. The logs of `potluck up` and of the embedded"
            " PostgreSQL are found.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Collect what helps to find a fault into one archive, without secrets."""
    screen = Screen(json)
    settings = read_settings_of_existing(options)
    from potluck.server.support.bundle import SupportBundle

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
    found = [data_dir_of(directory) / "logs" / "server.log"]
    return [*found, *sorted((directory / "postgres" / "log").glob("*.log"))]
