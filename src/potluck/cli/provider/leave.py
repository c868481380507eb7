"""`potluck provider leave`: remove this machine from the pool, and delete its key."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.drain import progress_reporter
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.prompt import confirm
from potluck.cli.terminal.screen import Screen
from potluck.model.error import Conflict, InvalidInput, NotFound, NotInstalled

_QUESTION = (
    "This machine leaves the pool at {url} permanently: running tasks are {ending}, its devices"
    " are unbound from your wallet, and its key is deleted. Continue?"
)


def leave(
    now: Annotated[
        bool, typer.Option("--now", help="Stop running tasks instead of finishing them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    forget_terms: Annotated[
        bool, typer.Option("--forget-terms", help="Also delete provider.toml.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Leave even if the server cannot be reached.")
    ] = False,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Leave the pool permanently: finish tasks, unbind devices, delete the key."""
    from potluck.cli.provider.local import LocalTarget, provider_directory

    screen, directory = Screen(json), provider_directory(data_dir)
    machine = LocalTarget(directory)
    running = machine.running()
    url = _choose_pool(directory, running.url if running else None, server)
    ending = "stopped" if now else "finished first"
    if not yes and not confirm(_QUESTION.format(url=url, ending=ending), "--yes"):
        raise typer.Abort
    with LiveLine(screen) as line:
        if running:
            machine.leave(now, progress_reporter(line))
        else:
            _leave_without_provider(directory, url, anyway)
    if forget_terms:
        _forget_terms(directory)
    if json:
        screen.emit({"left": True, "url": url, "forgot_terms": forget_terms})
    else:
        screen.out.line(f"Left the pool at {url}. This machine's key there is deleted.")
        _warn_about_service(screen)


def _choose_pool(directory: Path, running: str | None, server: str | None) -> str:
    """The named pool, that of the running provider, or the only one."""
    from potluck.consumer.http.server_address import check_url
    from potluck.provider.data_directory import known_urls

    named = check_url(server) if server is not None else None
    if running and named and named != running:
        raise Conflict(
            f"The provider running here is in the pool at {running}, not at {named}.",
            "Leave out --server to leave that one; stop the provider first to leave another.",
        )
    if chosen := named or running:
        return chosen
    urls = known_urls(directory)
    if len(urls) > 1:
        raise InvalidInput(
            f"{directory} is in {len(urls)} pools: {', '.join(urls)}.",
            "Name the one to leave: --server URL",
        )
    if not urls:
        raise NotFound(f"{directory} is in no pool.", "Name another directory with --data-dir.")
    return urls[0]


def _leave_without_provider(directory: Path, url: str, may_skip_server: bool) -> None:
    import asyncio

    from potluck.consumer.http.connect import find_ca_file
    from potluck.provider.server.leave import leave_for_good

    asyncio.run(leave_for_good(directory, url, find_ca_file(url), may_skip_server))


def _forget_terms(directory: Path) -> None:
    from potluck.provider.owner.file import terms_file
    from potluck.provider.owner.pending_writes import pending_writes_file

    terms_file(directory).unlink(missing_ok=True)
    pending_writes_file(directory).unlink(missing_ok=True)


def _warn_about_service(screen: Screen) -> None:
    """A service would start the provider again, without a key."""
    from potluck.provider.service.choose import find_manager

    try:
        is_installed = find_manager().state().url is not None
    except NotInstalled:
        return
    if is_installed:
        screen.err.line("The service is still installed. Remove it: potluck provider uninstall")
