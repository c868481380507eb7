"""`potluck provider leave`: out of the pool for good; the machine gives up its key."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.live_line import LiveLine
from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.prompt import confirmed
from potluck.cli.provider.drain import counting
from potluck.cli.screen import Screen
from potluck.model.error import NotInstalled, NotRunning

_QUESTION = (
    "This machine leaves the pool for good: {how}, its devices are unbound from your wallet, and"
    " its key is deleted. Go on?"
)


def leave(
    now: Annotated[
        bool, typer.Option("--now", help="Stop what runs, instead of finishing it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    forget_terms: Annotated[
        bool, typer.Option("--forget-terms", help="Delete provider.toml, too.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also if the server can not be told.")
    ] = False,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take this machine out of the pool for good: finish, settle, unbind, delete its key."""
    from potluck.cli.provider.here import provider_directory

    screen, directory = Screen(json), provider_directory(data_dir)
    how = "what runs is stopped" if now else "what runs is finished first"
    if not yes and not confirmed(_QUESTION.format(how=how), "--yes"):
        raise typer.Abort
    with LiveLine(screen) as line:
        _leave(directory, server, now, anyway, line)
    if forget_terms:
        _forget_terms(directory)
    if json:
        screen.emit({"left": True, "forgot_terms": forget_terms})
    else:
        screen.out.line("Left the pool. Your machine is your own again, and its key is gone.")
        _remind(screen)


def _leave(
    directory: Path, server: str | None, is_now: bool, is_anyway: bool, line: LiveLine
) -> None:
    """By the provider that runs here; where none does, by ourselves."""
    from potluck.cli.provider.here import Here

    try:
        Here(directory).leave(is_now, counting(line))
    except NotRunning:
        _leave_alone(directory, server, is_anyway)


def _leave_alone(directory: Path, server: str | None, is_anyway: bool) -> None:
    import asyncio

    from potluck.consumer.connect import ca_file_for
    from potluck.consumer.profile import chosen_url
    from potluck.provider.leave import leave_for_good

    url = chosen_url(server)
    asyncio.run(leave_for_good(directory, url, ca_file_for(url), is_anyway))


def _forget_terms(directory: Path) -> None:
    from potluck.provider.owner.file import terms_file
    from potluck.provider.owner.unwritten import unwritten_file

    terms_file(directory).unlink(missing_ok=True)
    unwritten_file(directory).unlink(missing_ok=True)


def _remind(screen: Screen) -> None:
    """A service would start a provider again, and nobody would stand behind it."""
    from potluck.provider.service.choose import find_manager

    try:
        is_installed = find_manager().state().url is not None
    except NotInstalled:
        return
    if is_installed:
        screen.err.line("It is still started with the machine: potluck provider uninstall")
