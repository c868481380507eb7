"""`potluck provider install`: the provider as a service that starts with the machine."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.account.authorise import SigningOptions, authorise, is_authorised
from potluck.cli.command import Command
from potluck.cli.options import (
    BrowserOption,
    CaFingerprintOption,
    DataDirOption,
    InviteOption,
    JsonOption,
    KeyFileOption,
    UrlArgument,
    resolve_server_url,
)
from potluck.cli.provider.provide import provide
from potluck.cli.terminal.prompt import confirm
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import InvalidInput, NotInstalled

if TYPE_CHECKING:
    from potluck.provider.service.service import Manager, Service
    from potluck.provider.settings import ProviderSettings

# Options of `potluck provide` that `install` handles once, so the service does not get them.
_INSTALL_ONLY = {"data_dir", "browser", "invite", "key_file", "ca_fingerprint", "authorise"}


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
    now: Annotated[bool, typer.Option("--now", help="Also start it now.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Only print the file.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Replace a service for another server.")
    ] = False,
    browser: BrowserOption = False,
    invite: InviteOption = None,
    key_file: KeyFileOption = None,
    ca_fingerprint: CaFingerprintOption = None,
    json: JsonOption = False,
) -> None:
    """Provide whenever this machine runs; your wallet signs now if necessary."""
    from potluck.consumer.http.connect import pin_ca
    from potluck.consumer.identity.profile import choose_url
    from potluck.local.data_directory import config_directory
    from potluck.provider.service.choose import find_manager

    screen, (url_argument, provide_options) = Screen(json), _split_arguments(url, options or [])
    address = choose_url(resolve_server_url(url_argument))
    if ca_fingerprint is not None and not show:
        pin_ca(address, ca_fingerprint, config_directory())
    settings, manager = _read_settings(address, data_dir), find_manager()
    service = _describe_service(settings, provide_options)
    if show:
        screen.out.write_bytes(manager.content(service))
        return
    _confirm_other_server(manager, address, yes)
    signing = SigningOptions(False, browser, invite, key_file, settings.name[:100])
    _authorise(screen, settings, signing)
    is_new = _write(manager.path, manager.content(service))
    _enable(manager)
    is_started = now and (is_new or not manager.state().is_active)
    if is_started:
        manager.start()
    _report(screen, manager, is_new, is_started)


def uninstall(
    now: Annotated[bool, typer.Option("--now", help="Also stop the running provider.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove the service. A running provider continues, unless --now is given."""
    from potluck.provider.service.choose import find_manager

    screen, manager = Screen(json), find_manager()
    before = manager.state()
    if before.url is None:
        screen.err.line(f"No service is installed: {before.path} does not exist.")
    else:
        if now and before.is_active:
            manager.stop()
        manager.disable()
        screen.err.line(f"Removed {before.path}.", Tone.GOOD)
    is_left = before.is_active and not now
    if is_left:
        screen.err.line("The running provider continues; `potluck provider drain` stops it.")
    if json:
        screen.emit({"path": before.path, "was_installed": before.url is not None, "runs": is_left})


def _split_arguments(url: str | None, options: list[str]) -> tuple[str | None, list[str]]:
    """Without a URL, the first option is in its position."""
    return (None, [url, *options]) if url and url.startswith("-") else (url, options)


def _read_settings(url: str, data_dir: str | None) -> "ProviderSettings":
    from potluck.provider.settings import read_settings

    return read_settings(url, None, {"data_directory": data_dir}, os.environ)


def _describe_service(settings: "ProviderSettings", options: Sequence[str]) -> "Service":
    from potluck.local.data_directory import config_directory, data_dir_of
    from potluck.provider.service.service import describe

    _check_options(settings.url, options)
    command = (sys.executable, "-m", "potluck", "provide", settings.url)
    directory = ("--data-dir", str(data_dir_of(settings.data_directory)))
    return describe(
        (*command, *directory, *options),
        os.environ,
        config_directory(),
        settings.data_directory,
        settings.stop_grace_seconds,
    )


def _check_options(url: str, options: Sequence[str]) -> None:
    """Lets the parser of `potluck provide` check the options now."""
    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(provide)
    context = typer.main.get_command(app).make_context("potluck provide", [url, *options])
    install_options = sorted(name for name in _INSTALL_ONLY if context.params[name])
    if install_options:
        option = f"--{install_options[0].replace('_', '-')}"
        raise InvalidInput(
            f"{option} is not an option of the service.", f"Put {option} before the `--`."
        )


def _confirm_other_server(manager: "Manager", url: str, yes: bool) -> None:
    """Asks before a machine moves from one pool to another."""
    current = manager.state().url
    if current in (None, url) or yes:
        return
    if not confirm(f"This machine provides for {current}. Switch to {url}?", "--yes"):
        raise typer.Abort


def _authorise(screen: Screen, settings: "ProviderSettings", signing: SigningOptions) -> None:
    """Signs now, because a service cannot ask for a signature."""
    from potluck.consumer.http.connect import connect_anonymously

    if is_authorised(settings.data_directory, settings.url):
        return
    with closing(connect_anonymously(settings.url)) as line:
        authorise(screen, line, settings.data_directory, signing)


def _write(path: Path, content: bytes) -> bool:
    """Whether the content has changed."""
    from potluck.local.durable_files import write_atomically

    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return True


def _enable(manager: "Manager") -> None:
    if not manager.answers():
        raise NotInstalled(
            f"{manager.path} is written, but your service manager does not respond.",
            f"Log in as yourself (not by su or sudo), then: {' && '.join(manager.by_hand)}",
        )
    manager.enable()


def _report(screen: Screen, manager: "Manager", is_new: bool, is_started: bool) -> None:
    state = manager.state()
    if screen.json:
        screen.emit(state)
        return
    screen.out.line(f"{'Wrote' if is_new else 'Unchanged:'} {state.path}", Tone.GOOD)
    if not state.is_active:
        screen.err.line("It starts when you log in; --now starts it immediately.")
    elif is_new and not is_started:
        screen.err.line("The running provider keeps the old options until it restarts: --now.")
    if state.lingers is False:
        screen.err.line("It stops when you log out. To run it from boot: loginctl enable-linger")
