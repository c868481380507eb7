"""Events of an account: the same JSON in its list, its stream and its webhooks."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import NodeId, TaskId

# The event type of an EventGap in a stream; no event has it.
GAP = "gap"


class EventView(Struct, frozen=True):
    """A committed fact. Use its id to detect duplicates."""

    id: str
    kind: EventKind
    at: datetime
    task_id: TaskId | None = None
    task_name: str | None = None
    node_id: NodeId | None = None
    data: dict[str, Any] = {}  # if applicable: state, reason, attempt_id, node_id


class EventGap(Struct, frozen=True):
    """Events may be missing between the requested position and the next event."""

    detail: str
    hint: str = ""


class EventPage(Struct, frozen=True):
    """A page of events, and the position to continue from.

    Oldest first, `next_cursor` is always present, and leads to later events too. Newest first, it
    is null on the last page.
    """

    events: list[EventView]
    next_cursor: str | None = None
    head: str | None = None  # after the newest event: a stream from here misses nothing
    gap: EventGap | None = None
