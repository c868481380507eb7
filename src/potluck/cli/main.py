"""The `potluck` program: registers the commands and maps errors to exit statuses."""

import platform
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from potluck import __version__
from potluck.cli.account.balance import balance
from potluck.cli.account.keys import add_key, list_keys, revoke_key
from potluck.cli.account.login import login
from potluck.cli.account.logout import logout
from potluck.cli.account.roles import roles
from potluck.cli.account.sessions import end_session, list_sessions
from potluck.cli.account.whoami import whoami
from potluck.cli.admin.accounts import accounts, grant, resume, set_roles, suspend
from potluck.cli.admin.audit import audit
from potluck.cli.admin.invites import invite, invites
from potluck.cli.admin.quota import quota
from potluck.cli.admin.rotate_key import rotate_key
from potluck.cli.command import Command
from potluck.cli.completion import use_named_shell
from potluck.cli.doctor.doctor import doctor
from potluck.cli.gpus.gpus import gpus
from potluck.cli.gpus.nodes import nodes
from potluck.cli.operate.server import server
from potluck.cli.operate.up import up
from potluck.cli.options import JsonOption
from potluck.cli.provider.drain import drain
from potluck.cli.provider.earnings import earnings
from potluck.cli.provider.explain import explain_node
from potluck.cli.provider.install import install, uninstall
from potluck.cli.provider.keys import list_node_keys, revoke_node_key
from potluck.cli.provider.leave import leave
from potluck.cli.provider.pause import pause, reclaim
from potluck.cli.provider.pause import resume as resume_devices
from potluck.cli.provider.provide import provide
from potluck.cli.provider.status import status
from potluck.cli.provider.terms import set_terms
from potluck.cli.request.defaults import SendingCommand
from potluck.cli.results.files import files
from potluck.cli.results.logs import logs
from potluck.cli.results.result import result
from potluck.cli.simulate.completion import completion
from potluck.cli.simulate.placement import placement
from potluck.cli.tasks.attempts import attempts
from potluck.cli.tasks.cancel import cancel
from potluck.cli.tasks.events import events
from potluck.cli.tasks.explain import explain
from potluck.cli.tasks.map import map_items
from potluck.cli.tasks.ps import ps
from potluck.cli.tasks.retry import retry
from potluck.cli.tasks.run import run
from potluck.cli.tasks.status import task_status
from potluck.cli.tasks.submit import submit
from potluck.cli.tasks.templates import templates
from potluck.cli.terminal.error_output import report_error, usage_error
from potluck.cli.terminal.help_text import HelpGroup, ListingGroup, PlainGroup
from potluck.cli.terminal.screen import Screen, open_streams
from potluck.cli.top.top import top
from potluck.cli.webhooks.change import change_webhook
from potluck.cli.webhooks.commands import (
    pause_webhook,
    remove_webhook,
    resume_webhook,
    test_webhook,
)
from potluck.cli.webhooks.deliveries import list_deliveries, redeliver
from potluck.cli.webhooks.list import list_webhooks, show_webhook
from potluck.cli.webhooks.secrets import add_webhook, rotate_webhook


def version(json: JsonOption = False) -> None:
    """Show the version of Potluck, of Python and of the system."""
    screen = Screen(json)
    python, system = platform.python_version(), platform.platform()
    if json:
        screen.emit({"potluck": __version__, "python": python, "system": system})
    else:
        screen.out.line(f"Potluck {__version__} (Python {python}, {system})")


# The help panels, in order.
_RUN = "Run tasks"
_WATCH = "Watch tasks"
_RESULTS = "Get results"
_POOL = "Browse the pool"
_ACCOUNT = "My account"
_MACHINES = "My machines"
_OWN_POOL = "Run a pool"

app = typer.Typer(
    cls=PlainGroup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_set: bool) -> None:
    if is_set:
        version()
        raise typer.Exit


@app.callback()
def potluck(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Everyone brings a GPU: run your work in a pool, and share your own devices."""


# Options end at the script's name; everything after it belongs to the script.
for name, sending in (("run", run), ("submit", submit), ("map", map_items)):
    app.command(
        name,
        cls=SendingCommand,
        rich_help_panel=_RUN,
        context_settings={"allow_interspersed_args": False},
    )(sending)
app.command("status", cls=Command, rich_help_panel=_WATCH)(task_status)
for panel, commands in {
    _RUN: (retry, templates),
    _WATCH: (ps, top, logs, explain, attempts, events, cancel),
    _RESULTS: (result, files),
    _POOL: (gpus, nodes),
    _ACCOUNT: (login, logout, whoami, balance, roles),
    _MACHINES: (provide, doctor),
    _OWN_POOL: (up, server, version),
}.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)

keys = typer.Typer(cls=ListingGroup, help="API keys, for CI and scripts.")
keys.command("list", cls=Command)(list_keys)
keys.command("add", cls=Command)(add_key)
keys.command("revoke", cls=Command)(revoke_key)
app.add_typer(keys, name="keys", rich_help_panel=_ACCOUNT)

provider = typer.Typer(cls=HelpGroup, help="My machines: their offers, work and earnings.")
provider.command(cls=Command)(status)
provider.command("set", cls=Command)(set_terms)
provider.command(cls=Command)(pause)
provider.command("resume", cls=Command)(resume_devices)
for owner_command in (reclaim, drain, leave):
    provider.command(cls=Command)(owner_command)
provider.command("explain", cls=Command)(explain_node)
provider.command(cls=Command)(earnings)
provider.command("keys", cls=Command)(list_node_keys)
provider.command("revoke", cls=Command)(revoke_node_key)
for service_command in (install, uninstall):
    provider.command(cls=Command)(service_command)
app.add_typer(provider, name="provider", rich_help_panel=_MACHINES)

sessions = typer.Typer(cls=ListingGroup, help="Where my wallet is signed in.")
sessions.command("list", cls=Command)(list_sessions)
sessions.command("end", cls=Command)(end_session)
app.add_typer(sessions, name="sessions", rich_help_panel=_ACCOUNT)

webhooks = typer.Typer(cls=ListingGroup, help="Send events to a URL of mine by HTTP.")
webhooks.command("list", cls=Command)(list_webhooks)
webhooks.command("add", cls=Command)(add_webhook)
webhooks.command("show", cls=Command)(show_webhook)
webhooks.command("change", cls=Command)(change_webhook)
webhooks.command("test", cls=Command)(test_webhook)
webhooks.command("rotate", cls=Command)(rotate_webhook)
webhooks.command("pause", cls=Command)(pause_webhook)
webhooks.command("resume", cls=Command)(resume_webhook)
webhooks.command("remove", cls=Command)(remove_webhook)
webhooks.command("deliveries", cls=Command)(list_deliveries)
webhooks.command("redeliver", cls=Command)(redeliver)
app.add_typer(webhooks, name="webhooks", rich_help_panel=_ACCOUNT)

admin = typer.Typer(cls=HelpGroup, help="Commands for admins.")
admin.command("accounts", cls=Command)(accounts)
admin.command("roles", cls=Command)(set_roles)
for admin_command in (suspend, resume, grant, quota, invite, invites, audit, rotate_key):
    admin.command(cls=Command)(admin_command)
app.add_typer(admin, name="admin", rich_help_panel=_OWN_POOL)

simulate = typer.Typer(cls=HelpGroup, help="Simulate the scheduler on traces.")
for simulation in (completion, placement):
    simulate.command(cls=Command)(simulation)
app.add_typer(simulate, name="simulate", rich_help_panel=_OWN_POOL)


def main() -> None:
    open_streams()
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status."""
    try:
        with use_named_shell(arguments):
            status = app(list(arguments) or ["--help"], prog_name="potluck", standalone_mode=False)
    except typer.TyperException as error:
        group = getattr(getattr(error, "ctx", None), "command_path", "potluck")
        return report_error(usage_error(error.format_message(), group), "--json" in arguments)
    except typer.Abort:
        return 130
    return status if isinstance(status, int) else 0
