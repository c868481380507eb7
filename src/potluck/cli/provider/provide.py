"""`potluck provide`: this machine's devices for the pool, until Ctrl-C."""

import os
import signal
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from potluck.cli.account.authorise import AGAIN, Signing, authorise_first
from potluck.cli.option_groups import grouped
from potluck.cli.options import (
    CaFingerprintOption,
    DataDirOption,
    InviteOption,
    JsonOption,
    KeyFileOption,
    UrlArgument,
)
from potluck.cli.request.check import parse_labels
from potluck.cli.terminal.screen import Screen, leave_the_pipe
from potluck.model.units import parse_bytes, parse_credits, parse_seconds

if TYPE_CHECKING:
    from potluck.provider.announcement import Announce, Announcement


@dataclass(frozen=True)
class OfferOptions:
    """What tasks may have of this machine, and at what price."""

    panel: ClassVar = "What it offers"

    price: Annotated[
        str | None,
        typer.Option(metavar="CREDITS", help="For each device and hour; free if not given."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="That tasks may ask for, such as region=eu; repeatable.",
            show_default=False,
        ),
    ] = None
    share_between_accounts: Annotated[
        bool,
        typer.Option(
            "--share-between-accounts",
            help="Let tasks of several accounts have parts of one device side by side.",
        ),
    ] = False
    cores: Annotated[int | None, typer.Option(help="All if not given.")] = None
    ram: Annotated[str | None, typer.Option(metavar="SIZE", help="60 % if not given.")] = None
    disk: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Out of memory too; 20 % of it if not given."),
    ] = None

    def settings(self) -> dict[str, Any]:
        """By their names; None leaves it to the environment, and to the defaults."""
        price, ram, disk = self.price, self.ram, self.disk
        return {
            "price_micro_per_hour": price and parse_credits(price, "--price"),
            "labels": parse_labels(self.label) if self.label else None,
            "share_between_accounts": self.share_between_accounts or None,
            "cores": self.cores,
            "memory_bytes": ram and parse_bytes(ram, "--ram"),
            "disk_bytes": disk and parse_bytes(disk, "--disk"),
        }


@dataclass(frozen=True)
class RunningOptions:
    """How this machine runs what it is given."""

    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where tasks' dependencies come from.")
    ] = None
    index_hosts: Annotated[
        str | None,
        typer.Option(metavar="HOST,…", help="Further hosts that serve that index's files."),
    ] = None
    allow_builds: Annotated[
        bool,
        typer.Option("--allow-builds", help="Build dependencies that have no wheel, in a sandbox."),
    ] = False
    environments: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of the disk, for tasks' dependencies; 40 GiB at most."),
    ] = None
    stop_after_silence: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Stop tasks when the server was silent for so long, such as 10m."
        ),
    ] = None
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option(
            "--unsafe-no-sandbox", help="Run without walls; then only your own tasks are taken."
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """As with what it offers."""
        environments, silence = self.environments, self.stop_after_silence
        return {
            "index_url": self.index_url,
            "index_hosts": self.index_hosts,
            "allow_builds": self.allow_builds or None,
            "environments_bytes": environments and parse_bytes(environments, "--environments"),
            "stop_after_silence_seconds": silence
            and parse_seconds(silence, "--stop-after-silence"),
            "unsafe_no_sandbox": self.unsafe_no_sandbox or None,
        }


@dataclass(frozen=True)
class WalletOptions:
    """By whom this machine is let in."""

    panel: ClassVar = "Your wallet, asked once"

    browser: Annotated[
        bool, typer.Option("--browser", help="Sign with the wallet in your browser.")
    ] = False
    invite: InviteOption = None
    key_file: KeyFileOption = None
    authorise: Annotated[
        bool, typer.Option(AGAIN, help="Let the wallet sign again, as after a revocation.")
    ] = False


@grouped
def provide(
    *,
    url: UrlArgument = None,
    name: Annotated[
        str | None, typer.Option(help="What others call this machine; its host name if not given.")
    ] = None,
    data_dir: DataDirOption = None,
    offer: OfferOptions,
    running: RunningOptions,
    wallet: WalletOptions,
    ca_fingerprint: CaFingerprintOption = None,
    json: JsonOption = False,
) -> None:
    """Bring this machine's devices to the pool, until Ctrl-C."""
    import logging

    from potluck.consumer.http.ca_pinning import pin_ca
    from potluck.consumer.http.connect import door
    from potluck.consumer.identity.profile import chosen_url
    from potluck.local.data_directory import config_directory
    from potluck.local.log import configure_logs
    from potluck.provider.daemon import run_provider
    from potluck.provider.settings import read_settings

    options = {
        "name": name,
        "data_directory": data_dir,
        **offer.settings(),
        **running.settings(),
    }
    screen, address = Screen(json), chosen_url(url)
    ca_file = (
        None if ca_fingerprint is None else pin_ca(address, ca_fingerprint, config_directory())
    )
    with closing(door(address, ca_file)) as line:
        settings = read_settings(address, line.ca_file, options, os.environ)
        called = settings.name[:100]
        signing = Signing(wallet.authorise, wallet.browser, wallet.invite, wallet.key_file, called)
        authorise_first(screen, line, settings.data_directory, signing)
    # Warnings about this machine; what happens to tasks is told by the announcements.
    configure_logs(logging.WARNING)
    run_provider(settings, announcer(screen))


def announcer(screen: Screen) -> "Announce":
    import structlog

    from potluck.cli.provider.provide_text import tell
    from potluck.provider.announcement import OfferRefused, TermsWrong

    log = structlog.get_logger()

    def announce(announcement: "Announcement") -> None:
        try:
            if screen.json:
                # Programs may pass over it; whoever wonders looks into the log.
                if isinstance(announcement, TermsWrong | OfferRefused):
                    log.warning(announcement.detail, hint=announcement.hint)
                screen.emit(announcement)
            else:
                tell(screen, announcement)
        except BrokenPipeError:
            # Whoever listened has gone, and with them the reason to go on: as if they pressed ^C.
            leave_the_pipe()
            os.kill(os.getpid(), signal.SIGTERM)

    return announce
