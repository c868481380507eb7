"""`potluck provider leave`: out of the pool for good; the machine gives up its key."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.drain import counting
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.prompt import confirmed
from potluck.cli.terminal.screen import Screen
from potluck.model.error import Conflict, InvalidInput, NotFound, NotInstalled

_QUESTION = (
    "This machine leaves the pool at {url} for good: {how}, its devices are unbound from your"
    " wallet, and its key there is deleted. Go on?"
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
    from potluck.cli.provider.local import Here, provider_directory

    screen, directory = Screen(json), provider_directory(data_dir)
    machine = Here(directory)
    running = machine.running()
    url = _pool(directory, running.url if running else None, server)
    how = "what runs is stopped" if now else "what runs is finished first"
    if not yes and not confirmed(_QUESTION.format(url=url, how=how), "--yes"):
        raise typer.Abort
    with LiveLine(screen) as line:
        if running:
            machine.leave(now, counting(line))
        else:
            _leave_alone(directory, url, anyway)
    if forget_terms:
        _forget_terms(directory)
    if json:
        screen.emit({"left": True, "url": url, "forgot_terms": forget_terms})
    else:
        screen.out.line(f"Left the pool at {url}. This machine is your own again; its key is gone.")
        _remind(screen)


def _pool(directory: Path, running: str | None, server: str | None) -> str:
    """The one that was named, that of the provider that runs, or the only one; never another."""
    from potluck.consumer.http.server_address import checked_url
    from potluck.provider.data_directory import known_urls

    named = checked_url(server) if server is not None else None
    if running and named and named != running:
        raise Conflict(
            f"The provider that runs here is in the pool at {running}, not at {named}.",
            "Leave out --server to leave that one; stop the provider first to leave another.",
        )
    if found := named or running:
        return found
    known = known_urls(directory)
    if len(known) > 1:
        raise InvalidInput(
            f"{directory} is in {len(known)} pools: {', '.join(known)}.",
            "Say which one to leave: --server URL",
        )
    if not known:
        raise NotFound(f"{directory} is in no pool.", "Name another directory with --data-dir.")
    return known[0]


def _leave_alone(directory: Path, url: str, is_anyway: bool) -> None:
    import asyncio

    from potluck.consumer.http.connect import ca_file_for
    from potluck.provider.server.leave import leave_for_good

    asyncio.run(leave_for_good(directory, url, ca_file_for(url), is_anyway))


def _forget_terms(directory: Path) -> None:
    from potluck.provider.owner.file import terms_file
    from potluck.provider.owner.pending_writes import unwritten_file

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
