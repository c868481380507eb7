"""Responses for clients of the last minor version, which refuse members of enums that came later.

They are told by their User-Agent. Other programs get everything: they ignore what they do not know.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from potluck import __version__
from potluck.model.account import Scope
from potluck.model.credit import EntryKind
from potluck.model.event import EventKind
from potluck.model.task import EndReason
from potluck.wire.version import is_earlier, parse_user_agent

LATER_SCOPES: Final = frozenset((Scope.METRICS_READ,))
LATER_EVENTS: Final = frozenset(
    (
        EventKind.ATTEMPT_UNFUNDED,
        EventKind.DEVICE_COOL,
        EventKind.DEVICE_HOT,
        EventKind.NODE_LOST,
        EventKind.NODE_RETURNED,
    )
)
LATER_ENTRIES: Final = frozenset(
    (
        EntryKind.DEPOSIT,
        EntryKind.EPOCH,
        EntryKind.FEE,
        EntryKind.PAYOUT,
        EntryKind.RELEASE,
        EntryKind.REVERSAL,
    )
)
# As the nearest one that they know: two limits, or two that let the task wait for its next attempt.
LATER_REASONS: Final[Mapping[str, EndReason]] = {
    EndReason.CREDIT: EndReason.RECLAIMED,
    EndReason.GIVEN_BACK: EndReason.RECLAIMED,
    EndReason.NETWORK_LIMIT: EndReason.TIME_LIMIT,
}
# By the names of the fields that have them.
_LATER: Final[Mapping[str, frozenset[str]]] = {
    "scopes": LATER_SCOPES,
    "kinds": LATER_EVENTS,
    "kind": LATER_EVENTS | LATER_ENTRIES,
}


def is_earlier_client(headers: Mapping[str, str]) -> bool:
    version = parse_user_agent(headers.get("user-agent", ""))
    return version is not None and is_earlier(version, __version__)


def without_later(response: Struct) -> Any:
    """The response as plain values, without later members and without objects of a later kind."""
    return _strip(msgspec.to_builtins(response, builtin_types=(bytes, datetime)))


def _strip(value: Any, later: frozenset[str] = frozenset()) -> Any:
    if isinstance(value, dict):
        return {
            name: LATER_REASONS.get(item, item)
            if name == "reason" and isinstance(item, str)
            else _strip(item, _LATER.get(name, later))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_strip(item, later) for item in value if not _is_later(item, later)]
    return value


def _is_later(item: Any, later: frozenset[str]) -> bool:
    if isinstance(item, dict):
        return item.get("kind") in LATER_EVENTS
    return isinstance(item, str) and item in later
