"""Identifiers: a word for the kind, and a ULID (48 bits of time, 80 random bits,
of which the server uses ten for the microsecond).

Tables, JSON, logs and terminals use the same text. Ids sort by creation time, which keeps indexes
compact and listings in order. An id is a name, never a secret.
"""

import re
from datetime import datetime
from typing import Annotated, NewType

from msgspec import Meta

from potluck.model.bounded_types import END

AccountId = NewType("AccountId", str)
NodeId = NewType("NodeId", str)
DeviceId = NewType("DeviceId", str)
TaskId = NewType("TaskId", str)
AttemptId = NewType("AttemptId", str)

# As received over the wire; only the shape is checked.
_ULID = f"[0-7][0-9a-hjkmnp-tv-z]{{25}}{END}"
NODE_PATTERN, TASK_PATTERN, ATTEMPT_PATTERN = (
    f"^{kind}_{_ULID}" for kind in ("node", "task", "attempt")
)
NodeIdText = Annotated[NodeId, Meta(pattern=NODE_PATTERN)]
TaskIdText = Annotated[TaskId, Meta(pattern=TASK_PATTERN)]
AttemptIdText = Annotated[AttemptId, Meta(pattern=ATTEMPT_PATTERN)]

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_KINDS = (
    "account|node|device|task|attempt|session|key|nodekey|invite|upload|event|webhook|delivery"
    "|silence|volume"
)
_SHAPE = re.compile(f"({_KINDS})_[0-7][0-9a-hjkmnp-tv-z]{{25}}")


def is_id(text: str, kind: str) -> bool:
    """Whether `text` has the shape of an id of this kind; the object may not exist."""
    return bool(_SHAPE.fullmatch(text)) and text.startswith(f"{kind}_")


def call_id(task_id: TaskId, item: int) -> TaskId:
    """The address of one item of an array, such as a call of a stream: `task#item`."""
    return TaskId(f"{task_id}#{item}")


def split_call_id(name: str) -> tuple[TaskId, int | None]:
    """The task, and the item if the address names one."""
    task_id, mark, item = name.partition("#")
    if not mark:
        return TaskId(name), None
    is_item = item.isascii() and item.isdecimal() and len(item) <= 7
    return (TaskId(task_id), int(item)) if is_item else (TaskId(name), None)


def first_id_at(kind: str, moment: datetime) -> str:
    """The smallest possible id at this time, clamped to the range of ids."""
    milliseconds = int(moment.timestamp() * 1000)
    return f"{kind}_{ulid(min(max(milliseconds, 0), 2**48 - 1), bytes(10))}"


def ulid(milliseconds: int, entropy: bytes) -> str:
    """The 26 lower-case characters for this time and these ten random bytes."""
    assert 0 <= milliseconds < 2**48 and len(entropy) == 10
    number = (milliseconds << 80) | int.from_bytes(entropy)
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))
