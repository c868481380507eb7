"""What an account is told: the same JSON in its list, in its stream and to its webhooks."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import NodeId, TaskId

# The kind that a stream gives to an EventGap; no event has it.
GAP = "gap"


class EventView(Struct, frozen=True):
    """A fact, as it was committed. Whoever hears it twice knows it by its id."""

    id: str
    kind: EventKind
    at: datetime
    task_id: TaskId | None = None
    task_name: str | None = None
    node_id: NodeId | None = None
    data: dict[str, Any] = {}  # as far as it applies: state, reason, attempt_id, node_id


class EventGap(Struct, frozen=True):
    """Between the position that was asked for and what follows, something may be missing."""

    detail: str
    hint: str = ""


class EventPage(Struct, frozen=True):
    """Some events, and the position from which to read on.

    Oldest first there is always one: asked again with it, the answer has what came since. Newest
    first there is none behind the last page.
    """

    events: list[EventView]
    next_cursor: str | None = None
    head: str | None = None  # behind all that there was: a stream from here misses nothing
    gap: EventGap | None = None
