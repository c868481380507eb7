"""`potluck whoami`: the account that my commands act for."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.account import Credential
from potluck.model.units import show_amount, show_bytes, show_count, show_credits, show_seconds

if TYPE_CHECKING:
    from potluck.consumer import Potluck
    from potluck.model.account import Quota
    from potluck.wire.identity import Me


def whoami(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show my wallet, roles, credits and server."""
    screen = Screen(json)
    with connect(server) as potluck:
        me, url = potluck.account.me(), potluck.url
        ends_at = _session_end(potluck, me)
    if json:
        screen.emit({**asdict(me), "url": url, "session_expires_at": ends_at})
        return
    roles = ", ".join(me.roles) or "no role"
    screen.out.line(f"{screen.out.paint(me.address, Tone.STRONG)} ({roles})")
    held_suffix = f", {show_credits(me.held_micro)} more held for tasks" if me.held_micro else ""
    screen.out.line(f"{show_amount(me.available_micro)} available{held_suffix}")
    if limits := _limits_text(me.quota):
        screen.out.line(limits)
    if files := _files_text(me):
        screen.out.line(files)
    screen.out.line(f"{me.id} at {url}", Tone.FAINT)
    screen.out.line(_sign_in_text(me, ends_at), Tone.FAINT)


def _limits_text(quota: "Quota") -> str:
    """The limits of the account; empty if there are none."""
    running, queued = quota.max_running_devices, quota.max_queued_tasks
    limits = [
        "" if running is None else f"at most {show_count(running, 'device')} at a time",
        "" if queued is None else f"at most {show_count(queued, 'task')} waiting",
        "" if quota.max_priority is None else f"priority at most {quota.max_priority}",
        "" if quota.weight == 1 else f"weight {quota.weight:g}",
    ]
    return ", ".join(filter(None, limits))


def _files_text(me: "Me") -> str:
    if not me.used_blob_bytes:
        return ""
    most = me.quota.max_blob_bytes
    of = "" if most is None else f" of {show_bytes(most)}"
    return f"{show_bytes(me.used_blob_bytes)}{of} used for files"


def _session_end(potluck: "Potluck", me: "Me") -> datetime | None:
    if me.signed_in_by is not Credential.SESSION:
        return None
    current = [session.expires_at for session in potluck.account.sessions() if session.is_current]
    return current[0] if current else None


def _sign_in_text(me: "Me", ends_at: datetime | None) -> str:
    if me.signed_in_by is Credential.KEY:
        return f"signed in by an API key for {', '.join(me.scopes)}"
    if ends_at is None:
        return f"signed in by a {me.signed_in_by}"
    left = show_seconds((ends_at - datetime.now(UTC)).total_seconds())
    return f"signed in by a session that expires after {left} without use"
