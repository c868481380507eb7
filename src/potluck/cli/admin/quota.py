"""`potluck admin quota`: the limits of an account."""

from typing import Annotated

import typer
from msgspec import ValidationError, convert
from msgspec.structs import replace

from potluck.cli.admin.accounts import AccountArgument
from potluck.cli.admin.change import find_account_view
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.model.account import Quota
from potluck.model.error import InvalidInput
from potluck.model.task import Priority
from potluck.model.units import parse_bytes, show_bytes, show_count

# On the command line: use the pool's default.
_DEFAULT = "default"


def quota(
    account: AccountArgument,
    weight: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=1000, help="Its share relative to other accounts; 1 is normal."
        ),
    ] = None,
    running_devices: Annotated[
        str | None, typer.Option(metavar="N", help="Most devices in use at a time, or `default`.")
    ] = None,
    queued_tasks: Annotated[
        str | None, typer.Option(metavar="N", help="Most waiting tasks, or `default`.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option(metavar="N", help="Highest priority of its tasks, or `default`.")
    ] = None,
    files: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most storage for its files, or `default`.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show or change the limits of an account."""
    screen = Screen(json)
    changes = {
        "weight": weight,
        "max_running_devices": _parse_count(running_devices, "--running-devices"),
        "max_queued_tasks": _parse_count(queued_tasks, "--queued-tasks"),
        "max_priority": _parse_priority(priority),
        "max_blob_bytes": _parse_size(files),
    }
    new_limits = {name: value for name, value in changes.items() if value is not None}
    with connect(server) as potluck:
        row = find_account_view(potluck, account)
        limits = replace(
            row.quota, **{k: None if v == _DEFAULT else v for k, v in new_limits.items()}
        )
        if new_limits:
            potluck.admin.set_quota(row.id, limits)
    if json:
        screen.emit({"account_id": row.id, "quota": limits})
    else:
        screen.out.line(f"{account}: {quota_text(limits)}.")


def quota_text(quota: Quota) -> str:
    running, queued = quota.max_running_devices, quota.max_queued_tasks
    files = quota.max_blob_bytes
    return ", ".join(
        [
            f"weight {quota.weight:g}",
            _limit_text(running, "device", "at a time"),
            _limit_text(queued, "task", "waiting"),
            *([] if quota.max_priority is None else [f"priority at most {quota.max_priority}"]),
            *([] if files is None else [f"files of at most {show_bytes(files)}"]),
        ]
    )


def _limit_text(count: int | None, noun: str, when: str) -> str:
    if count is None:
        return f"the default number of {noun}s {when}"
    return f"at most {show_count(count, noun)} {when}"


def _parse_count(text: str | None, option: str) -> int | str | None:
    if text is None or text == _DEFAULT:
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidInput(
            f"{option} {text!r} is not a number from 0 to 999,999,999.",
            f"Write {option} 8, or {option} {_DEFAULT} for the pool's default.",
        )
    return int(text)


def _parse_size(text: str | None) -> int | str | None:
    return text if text is None or text == _DEFAULT else parse_bytes(text, "--files")


def _parse_priority(text: str | None) -> int | str | None:
    if text is None or text == _DEFAULT:
        return text
    try:
        return convert(text, Priority, strict=False)
    except ValidationError as error:
        raise InvalidInput(
            f"--priority {text!r} is not a number from -100 to 100.",
            f"Write --priority 0, or --priority {_DEFAULT} for the pool's default.",
        ) from error
