"""`potluck provide`: offer this machine's devices to a pool, until Ctrl-C."""

import os
import signal
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from potluck.cli.account.authorise import AUTHORISE_OPTION, SigningOptions, ensure_authorised
from potluck.cli.options import (
    CaFingerprintOption,
    DataDirOption,
    InviteOption,
    JsonOption,
    KeyFileOption,
    UrlArgument,
    expand_option_groups,
    resolve_server_url,
)
from potluck.cli.terminal.screen import Screen, silence_stdout
from potluck.local.option_values import parse_labels
from potluck.model.units import parse_bytes, parse_credits, parse_seconds

if TYPE_CHECKING:
    from potluck.provider.announcement import Announce, Announcement


@dataclass(frozen=True)
class OfferOptions:
    """The resources that tasks may use, and their price."""

    panel: ClassVar = "Resources and price"

    price: Annotated[
        str | None, typer.Option(metavar="CREDITS", help="Per device and hour; default: free.")
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="A label that tasks may require, such as region=eu; repeatable.",
            show_default=False,
        ),
    ] = None
    share_between_accounts: Annotated[
        bool,
        typer.Option(
            "--share-between-accounts",
            help="Let tasks of different accounts share one device at the same time.",
        ),
    ] = False
    cores: Annotated[int | None, typer.Option(help="CPU cores; default: all.")] = None
    ram: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory; default: 60 %.")] = None
    disk: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Disk space; default: half of what is free.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """Values by setting name; None falls back to the environment and the defaults."""
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
    """How this machine runs tasks."""

    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The package index for tasks' dependencies.")
    ] = None
    index_hosts: Annotated[
        str | None, typer.Option(metavar="HOST,…", help="Other hosts that serve the index's files.")
    ] = None
    allow_builds: Annotated[
        bool,
        typer.Option("--allow-builds", help="Build dependencies without a wheel, in a sandbox."),
    ] = False
    environments: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Disk space for tasks' dependencies; at most 40 GiB."),
    ] = None
    volumes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Disk space for volumes; 0: none. Default: 50 GiB."),
    ] = None
    stop_after_silence: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop tasks after this long without contact with the server, such as 10m.",
        ),
    ] = None
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option(
            "--unsafe-no-sandbox", help="Run without isolation, and take only your own tasks."
        ),
    ] = False
    metrics_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Serve metrics for Prometheus on 127.0.0.1.")
    ] = None

    def settings(self) -> dict[str, Any]:
        environments, silence = self.environments, self.stop_after_silence
        return {
            "index_url": self.index_url,
            "index_hosts": self.index_hosts,
            "allow_builds": self.allow_builds or None,
            "environments_bytes": environments and parse_bytes(environments, "--environments"),
            "volumes_bytes": self.volumes and parse_bytes(self.volumes, "--volumes"),
            "stop_after_silence_seconds": silence
            and parse_seconds(silence, "--stop-after-silence"),
            "unsafe_no_sandbox": self.unsafe_no_sandbox or None,
            "metrics_port": self.metrics_port,
        }


@dataclass(frozen=True)
class WalletOptions:
    """The wallet that authorises this machine."""

    panel: ClassVar = "Your wallet (signs once)"

    browser: Annotated[
        bool, typer.Option("--browser", help="Sign with the wallet in your browser.")
    ] = False
    invite: InviteOption = None
    key_file: KeyFileOption = None
    authorise: Annotated[
        bool, typer.Option(AUTHORISE_OPTION, help="Sign again, for example after a revocation.")
    ] = False


@expand_option_groups
def provide(
    *,
    url: UrlArgument = None,
    name: Annotated[
        str | None, typer.Option(help="This machine's name in the pool; default: its host name.")
    ] = None,
    data_dir: DataDirOption = None,
    offer: OfferOptions,
    running: RunningOptions,
    wallet: WalletOptions,
    ca_fingerprint: CaFingerprintOption = None,
    json: JsonOption = False,
) -> None:
    """Offer this machine's devices to the pool, until Ctrl-C."""

    from potluck.consumer.http.connect import connect_anonymously, pin_ca
    from potluck.consumer.identity.profile import choose_url
    from potluck.local.data_directory import config_directory
    from potluck.local.log import configure_logs
    from potluck.provider.daemon import run_provider
    from potluck.provider.settings import read_settings

    options = {"name": name, "data_directory": data_dir, **offer.settings(), **running.settings()}
    screen, address = Screen(json), choose_url(resolve_server_url(url))
    ca_file = (
        None if ca_fingerprint is None else pin_ca(address, ca_fingerprint, config_directory())
    )
    with closing(connect_anonymously(address, ca_file)) as line:
        settings = read_settings(address, line.ca_file, options, os.environ)
        machine_name = settings.name[:100]
        signing = SigningOptions(
            wallet.authorise, wallet.browser, wallet.invite, wallet.key_file, machine_name
        )
        ensure_authorised(screen, line, settings.data_directory, signing)
    # By default warnings about this machine only; announcements report on tasks.
    configure_logs(settings.log_level, settings.log_style)
    run_provider(settings, make_announcer(screen))


def make_announcer(screen: Screen) -> "Announce":
    import structlog

    from potluck.cli.provider.provide_text import show_announcement
    from potluck.provider.announcement import OfferRefused, TermsWrong

    log = structlog.get_logger()

    def announce(announcement: "Announcement") -> None:
        try:
            if screen.json:
                # Programs may ignore these events, so they also go to the log.
                if isinstance(announcement, TermsWrong | OfferRefused):
                    log.warning(announcement.detail, hint=announcement.hint)
                screen.emit(announcement)
            else:
                show_announcement(screen, announcement)
        except BrokenPipeError:
            # The reader has gone away: stop as if Ctrl-C was pressed.
            silence_stdout()
            os.kill(os.getpid(), signal.SIGTERM)

    return announce
