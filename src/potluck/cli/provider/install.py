"""`potluck provider install`: the provider as a service, started with the machine."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.account.authorise import Signing, authorise, is_authorised
from potluck.cli.command import Command
from potluck.cli.options import (
    BrowserOption,
    CaFingerprintOption,
    DataDirOption,
    InviteOption,
    JsonOption,
    KeyFileOption,
    UrlArgument,
)
from potluck.cli.provider.provide import provide
from potluck.cli.terminal.prompt import confirmed
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import InvalidInput, NotInstalled

if TYPE_CHECKING:
    from potluck.provider.service.service import Manager, Service
    from potluck.provider.settings import ProviderSettings

# Of `potluck provide`: what installing settles once, so that a service need not.
_SETTLED = {"data_dir", "browser", "invite", "key_file", "ca_fingerprint", "authorise"}


def install(
    url: UrlArgument = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- OPTION",
            help="Options of `potluck provide`, such as -- --name box.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDirOption = None,
    now: Annotated[bool, typer.Option("--now", help="Start it at once, too.")] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Show the file, and do nothing else.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also in place of one for another server.")
    ] = False,
    browser: BrowserOption = False,
    invite: InviteOption = None,
    key_file: KeyFileOption = None,
    ca_fingerprint: CaFingerprintOption = None,
    json: JsonOption = False,
) -> None:
    """Let this machine provide whenever it runs; the wallet is asked now, if it must be."""
    from potluck.consumer.http.ca_pinning import pin_ca
    from potluck.consumer.identity.profile import chosen_url
    from potluck.local.data_directory import config_directory
    from potluck.provider.service.choose import find_manager

    screen, (named, further) = Screen(json), _told_apart(url, options or [])
    address = chosen_url(named)
    if ca_fingerprint is not None and not show:
        pin_ca(address, ca_fingerprint, config_directory())
    settings, manager = _settings(address, data_dir), find_manager()
    service = _service(settings, further)
    if show:
        screen.out.write_bytes(manager.content(service))
        return
    _check_other(manager, address, yes)
    signing = Signing(False, browser, invite, key_file, settings.name[:100])
    _authorise(screen, settings, signing)
    is_new = _write(manager.path, manager.content(service))
    _set_up(manager)
    is_started = now and (is_new or not manager.state().is_active)
    if is_started:
        manager.start()
    _tell(screen, manager, is_new, is_started)


def uninstall(
    now: Annotated[bool, typer.Option("--now", help="Stop the one that runs, too.")] = False,
    json: JsonOption = False,
) -> None:
    """Let this machine provide no longer by itself. What runs now runs on, without --now."""
    from potluck.provider.service.choose import find_manager

    screen, manager = Screen(json), find_manager()
    before = manager.state()
    if before.url is None:
        screen.err.line(f"Nothing is installed: {before.path} is not there.")
    else:
        if now and before.is_active:
            manager.stop()
        manager.disable()
        screen.err.line(f"Removed {before.path}.", Tone.GOOD)
    is_left = before.is_active and not now
    if is_left:
        screen.err.line("The provider that runs now runs on; `potluck provider drain` ends it.")
    if json:
        screen.emit({"path": before.path, "was_installed": before.url is not None, "runs": is_left})


def _told_apart(url: str | None, options: list[str]) -> tuple[str | None, list[str]]:
    """Without a URL the first option stands in its place."""
    return (None, [url, *options]) if url and url.startswith("-") else (url, options)


def _settings(url: str, data_dir: str | None) -> "ProviderSettings":
    from potluck.provider.settings import read_settings

    return read_settings(url, None, {"data_directory": data_dir}, os.environ)


def _service(settings: "ProviderSettings", options: Sequence[str]) -> "Service":
    from potluck.local.data_directory import config_directory
    from potluck.provider.service.service import describe

    _check_options(settings.url, options)
    command = (sys.executable, "-m", "potluck", "provide", settings.url)
    placed = ("--data-dir", str(settings.data_directory))
    return describe(
        (*command, *placed, *options),
        os.environ,
        config_directory(),
        settings.data_directory,
        settings.stop_grace_seconds,
    )


def _check_options(url: str, options: Sequence[str]) -> None:
    """That `potluck provide` would take them is found out by itself, and now."""
    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(provide)
    context = typer.main.get_command(app).make_context("potluck provide", [url, *options])
    given = sorted(name for name in _SETTLED if context.params[name])
    if given:
        spelled = f"--{given[0].replace('_', '-')}"
        raise InvalidInput(
            f"{spelled} is nothing for a service.", f"Say {spelled} before the two dashes, or not."
        )


def _check_other(manager: "Manager", url: str, yes: bool) -> None:
    """Whoever works for one pool is not sent to another by accident."""
    there = manager.state().url
    if there in (None, url) or yes:
        return
    if not confirmed(f"This machine provides for {there}. For {url} instead?", "--yes"):
        raise typer.Abort


def _authorise(screen: Screen, settings: "ProviderSettings", signing: Signing) -> None:
    """While somebody is there to sign: a service can not ask."""
    from potluck.consumer.http.connect import door

    if is_authorised(settings.data_directory, settings.url):
        return
    with closing(door(settings.url)) as line:
        authorise(screen, line, settings.data_directory, signing)


def _write(path: Path, content: bytes) -> bool:
    """Whether it says anything new."""
    from potluck.local.durable_files import write_whole

    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return True


def _set_up(manager: "Manager") -> None:
    if not manager.answers():
        raise NotInstalled(
            f"{manager.path} is written, but no service manager of yours answers here.",
            f"Log in as yourself (not by su or sudo), then: {' && '.join(manager.by_hand)}",
        )
    manager.enable()


def _tell(screen: Screen, manager: "Manager", is_new: bool, is_started: bool) -> None:
    state = manager.state()
    if screen.json:
        screen.emit(state)
        return
    screen.out.line(f"{'Wrote' if is_new else 'As it was:'} {state.path}", Tone.GOOD)
    if not state.is_active:
        screen.err.line("It starts when you log in; --now starts it at once.")
    elif is_new and not is_started:
        screen.err.line("The one that runs is as it was until it is started again: --now.")
    if state.lingers is False:
        screen.err.line(
            "It ends when you log out. To let it run from boot on: loginctl enable-linger"
        )
