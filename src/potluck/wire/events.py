"""What an account is told: the same JSON in its stream and to its webhooks."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import NodeId, TaskId


class EventView(Struct, frozen=True):
    """A fact, as it was committed. Whoever hears it twice knows it by its id."""

    id: str
    kind: EventKind
    at: datetime
    task_id: TaskId | None = None
    node_id: NodeId | None = None
    data: dict[str, Any] = {}  # as far as it applies: state, reason, attempt_id, node_id


class EventGap(Struct, frozen=True):
    """Between the position that a stream was asked for and what follows, something may be missing.

    In the stream it is of the kind `gap`, which no event has.
    """

    detail: str
    hint: str = ""
