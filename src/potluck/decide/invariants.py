"""What must be true at every moment, whatever was killed in between.

`violations` takes a picture of the whole truth and lists every sentence that does not hold. It runs
in tests after every fault; a later stage samples it in production.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from potluck.model.lease import AttemptState
from potluck.model.task import TaskState


class TaskFact(Struct, frozen=True):
    id: str
    state: TaskState


class AttemptFact(Struct, frozen=True):
    id: str
    task_id: str
    node_id: str
    state: AttemptState
    hold_micro: int
    held_micro: int  # what the ledger says is still held for it
    cores: int
    memory_bytes: int
    disk_bytes: int


class NodeFact(Struct, frozen=True):
    """What is in use, as the row says."""

    id: str
    used_cores: int
    used_memory_bytes: int
    used_disk_bytes: int


class DeviceFact(Struct, frozen=True):
    id: str
    used_milli: int
    reserved_milli: int  # the sum of what live attempts hold


class PurseFact(Struct, frozen=True):
    account_id: str
    available_micro: int
    held_micro: int
    entries_available_micro: int
    entries_held_micro: int


class Picture(Struct, frozen=True):
    tasks: tuple[TaskFact, ...]
    attempts: tuple[AttemptFact, ...]
    nodes: tuple[NodeFact, ...]
    devices: tuple[DeviceFact, ...]
    purses: tuple[PurseFact, ...]
    entries_sum_micro: int


def violations(picture: Picture) -> list[str]:
    return [
        *_task_violations(picture),
        *_settlement_violations(picture),
        *_capacity_violations(picture),
        *_ledger_violations(picture),
    ]


def _task_violations(picture: Picture) -> Iterator[str]:
    live = Counter(a.task_id for a in picture.attempts if a.state.is_live)
    succeeded = Counter(a.task_id for a in picture.attempts if a.state is AttemptState.SUCCEEDED)
    for task in picture.tasks:
        wanted = 1 if task.state in (TaskState.ASSIGNED, TaskState.RUNNING) else 0
        if live[task.id] != wanted:
            yield f"{task.id} is {task.state} with {live[task.id]} live attempts"
        accepted = 1 if task.state is TaskState.SUCCEEDED else 0
        if succeeded[task.id] != accepted:
            yield f"{task.id} is {task.state} with {succeeded[task.id]} accepted results"


def _settlement_violations(picture: Picture) -> Iterator[str]:
    for attempt in picture.attempts:
        expected = attempt.hold_micro if attempt.state.is_live else 0
        if attempt.held_micro != expected:
            yield f"{attempt.id} is {attempt.state}, and {attempt.held_micro} is held for it"


def _capacity_violations(picture: Picture) -> Iterator[str]:
    for node in picture.nodes:
        mine = [a for a in picture.attempts if a.node_id == node.id and a.state.is_live]
        reserved = (
            sum(a.cores for a in mine),
            sum(a.memory_bytes for a in mine),
            sum(a.disk_bytes for a in mine),
        )
        used = (node.used_cores, node.used_memory_bytes, node.used_disk_bytes)
        if used != reserved:
            yield f"{node.id} has {used} in use, but its attempts reserved {reserved}"
    for device in picture.devices:
        if device.used_milli != device.reserved_milli:
            yield f"{device.id} has {device.used_milli} in use of {device.reserved_milli} reserved"


def _ledger_violations(picture: Picture) -> Iterator[str]:
    if picture.entries_sum_micro != 0:
        yield f"all entries sum to {picture.entries_sum_micro}"
    for purse in picture.purses:
        if min(purse.available_micro, purse.held_micro) < 0:
            yield f"{purse.account_id} has a negative balance"
        rows = (purse.available_micro, purse.held_micro)
        if rows != (purse.entries_available_micro, purse.entries_held_micro):
            yield f"{purse.account_id} has balances {rows} that its entries do not explain"
