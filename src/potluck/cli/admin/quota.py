"""`potluck admin quota`: how much of the pool an account may have."""

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import ValidationError, convert
from msgspec.structs import replace

from potluck.cli.admin.accounts import AccountArgument
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.cli.terminal.units import show_bytes, show_count
from potluck.model.account import Quota
from potluck.model.error import InvalidInput, NotFound
from potluck.model.task import Priority
from potluck.model.units import parse_bytes
from potluck.wire.identity import AccountView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

# As somebody types it: back to what holds for everybody.
_DEFAULT = "default"


def quota(
    account: AccountArgument,
    weight: Annotated[
        float | None,
        typer.Option(min=0.001, max=1000, help="Its part where several want the same; 1 is usual."),
    ] = None,
    running_devices: Annotated[
        str | None,
        typer.Option(metavar="N", help="The most that its tasks have at a time, or `default`."),
    ] = None,
    queued_tasks: Annotated[
        str | None,
        typer.Option(metavar="N", help="The most that may wait, or `default`."),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option(metavar="N", help="The highest that its tasks may have, or `default`."),
    ] = None,
    files: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The most that its files may take, or `default`."),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show or change how much of the pool an account may have."""
    screen = Screen(json)
    changes = {
        "weight": weight,
        "max_running_devices": _count(running_devices, "--running-devices"),
        "max_queued_tasks": _count(queued_tasks, "--queued-tasks"),
        "max_priority": _priority(priority),
        "max_blob_bytes": _size(files),
    }
    said = {name: value for name, value in changes.items() if value is not None}
    with connect(server) as potluck:
        found = _find(potluck, account)
        wanted = replace(found.quota, **{k: None if v == _DEFAULT else v for k, v in said.items()})
        if said:
            potluck.admin.set_quota(found.id, wanted)
    if json:
        screen.emit({"account_id": found.id, "quota": wanted})
    else:
        screen.out.line(f"{account}: {told(wanted)}.")


def told(quota: Quota) -> str:
    """What is said of one account, in words; empty limits are those of everybody."""
    running, queued = quota.max_running_devices, quota.max_queued_tasks
    files = quota.max_blob_bytes
    return ", ".join(
        [
            f"weight {quota.weight:g}",
            _most(running, "device", "at a time"),
            _most(queued, "task", "waiting"),
            *([] if quota.max_priority is None else [f"priority at most {quota.max_priority}"]),
            *([] if files is None else [f"files of at most {show_bytes(files)}"]),
        ]
    )


def _most(count: int | None, noun: str, when: str) -> str:
    if count is None:
        return f"as many {noun}s {when} as everybody"
    return f"at most {show_count(count, noun)} {when}"


def _count(text: str | None, option: str) -> int | str | None:
    if text is None or text == _DEFAULT:
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidInput(
            f"{option} {text!r} is not a number from 0 to 999,999,999.",
            f"Write {option} 8, or {option} {_DEFAULT} for what holds for everybody.",
        )
    return int(text)


def _size(text: str | None) -> int | str | None:
    return text if text is None or text == _DEFAULT else parse_bytes(text, "--files")


def _priority(text: str | None) -> int | str | None:
    if text is None or text == _DEFAULT:
        return text
    try:
        return convert(text, Priority, strict=False)
    except ValidationError as error:
        raise InvalidInput(
            f"--priority {text!r} is not a number from -100 to 100.",
            f"Write --priority 0, or --priority {_DEFAULT} for what holds for everybody.",
        ) from error


def _find(potluck: "Potluck", named: str) -> AccountView:
    wanted = named.lower()
    for account in potluck.admin.accounts():
        if wanted in (account.id, account.address.lower()):
            return account
    raise NotFound(f"There is no account {named!r} here.", "`potluck admin accounts` lists them.")
