"""Suggestions for an owner: changes, one at a time, that would bring a node more work.

Tasks are counted by the scheduler's own checks, so a task that another refusal would still exclude
does not count.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from msgspec.structs import replace

from potluck.decide.explain.owner_sentences import TaskCounts
from potluck.decide.explain.relaxations import FIELD_OF, MEASURE_OF
from potluck.decide.pool.feasibility import Refusal, share_of, suitable
from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI, Availability
from potluck.model.network.patterns import ANY_HOST
from potluck.model.terms import TaskKind

_Changed = tuple[FreeNode, str]


def suggest_offers(node: FreeNode, refused: Mapping[Refusal, TaskCounts], about: str) -> list[str]:
    """Sentences, most tasks first; `about` precedes the counts."""
    found = [
        (count, condition)
        for refusal, offer in _OFFERS.items()
        if (asked := refused.get(refusal))
        and (changed := offer(node, asked)) is not None
        and (count := _count(changed[0], asked))
        and (condition := changed[1])
    ]
    found.sort(key=lambda each: -each[0])
    return [f"{condition}, it could take {about}{_tasks(count)}." for count, condition in found]


def _count(node: FreeNode, asked: TaskCounts) -> int:
    return sum(count for task, count in asked if not isinstance(suitable(task, node), Refusal))


def _tasks(count: int) -> str:
    return "1 of the waiting tasks" if count == 1 else f"{count:,} of the waiting tasks"


def _with_devices(node: FreeNode, **said: object) -> FreeNode:
    devices = tuple(replace(each, **said) for each in node.devices)
    return replace(node, devices=devices)


def _back(node: FreeNode, _asked: TaskCounts) -> _Changed:
    return _with_devices(node, availability=Availability.AVAILABLE), "If its devices took work now"


def _every_kind(node: FreeNode, _asked: TaskCounts) -> _Changed:
    return _with_devices(node, kinds=frozenset()), "If its owner accepted every kind of task"


def _everybody(node: FreeNode, _asked: TaskCounts) -> _Changed:
    open_ = _with_devices(node, allow=None, deny=frozenset())
    return open_, "If its owner accepted every account's tasks"


def _open_network(node: FreeNode, _asked: TaskCounts) -> _Changed:
    open_ = _with_devices(node, network=(ANY_HOST,), network_task_bytes=None)
    return open_, "If its owner allowed every public host (network=open)"


def _any_part(node: FreeNode, asked: TaskCounts) -> _Changed:
    least = min(task.requirements.device_milli or WHOLE_DEVICE_MILLI for task, _ in asked)
    parts = -(-WHOLE_DEVICE_MILLI // least)
    divided = tuple(
        replace(each, least_milli=min(each.least_milli, WHOLE_DEVICE_MILLI // parts))
        for each in node.devices
    )
    condition = f"If its GPUs were divided into {parts} parts"
    return replace(node, devices=divided), condition


def _runs_all(node: FreeNode, _asked: TaskCounts) -> _Changed:
    every = replace(node, kinds=frozenset(TaskKind), containers=None)
    return every, "If it could run every kind of task"


def _sandboxed(node: FreeNode, _asked: TaskCounts) -> _Changed:
    limited = replace(node, own_tasks_only=False, own_images_only=False)
    return limited, "With a sandbox that limits memory and processes"


def _cheaper(node: FreeNode, asked: TaskCounts) -> _Changed | None:
    """The highest price that half of the refused tasks would pay."""
    prices = [(paid, count) for task, count in asked if (paid := _paid(task, node)) is not None]
    if not prices:
        return None
    price = _of_half(sorted(prices, reverse=True))
    devices = tuple(
        replace(each, price_micro_per_hour=min(price, each.price_micro_per_hour))
        for each in node.devices
    )
    text = MEASURE_OF["max_price_micro_per_hour"].text(price, 6)
    changed = replace(node, devices=devices)
    return changed, f"At a price of {text} an hour for a device"


def _of_half(figures: Sequence[tuple[int, int]]) -> int:
    """The first figure that reaches half of the tasks; `figures` are pairs of figure and count."""
    counts = list(accumulate(count for _, count in figures))
    return figures[bisect_left(counts, (counts[-1] + 1) // 2)][0]


def _paid(task: WaitingTask, node: FreeNode) -> int | None:
    """The price of a whole device at which the task could pay for its share of the node."""
    wanted = task.requirements
    ceiling = wanted.max_price_micro_per_hour
    if ceiling is None or not node.devices:
        return None
    milli = min(share_of(wanted, each, node.cores).milli for each in node.devices)
    return ceiling * WHOLE_DEVICE_MILLI // (milli * wanted.device_count)


def _larger(refusal: Refusal) -> Callable[[FreeNode, TaskCounts], _Changed]:
    """The smallest size that suffices for half of the refused tasks."""
    field = FIELD_OF[refusal]
    measure = MEASURE_OF[field]

    def offer(node: FreeNode, asked: TaskCounts) -> _Changed:
        wanted = sorted((getattr(task.requirements, field), count) for task, count in asked)
        figure = _of_half(wanted)
        has = getattr(node, field)
        noun = {"cores": " cores", "memory_bytes": " of memory", "disk_bytes": " of disk"}[field]
        condition = f"With {measure.text(figure, 3)}{noun} instead of {measure.text(has, 3)}"
        return replace(node, **{field: figure}), condition

    return offer


_OFFERS: dict[Refusal, Callable[[FreeNode, TaskCounts], _Changed | None]] = {
    Refusal.DEVICE_AWAY: _back,
    Refusal.PRICE: _cheaper,
    Refusal.KIND: _runs_all,
    Refusal.TASK_KIND: _every_kind,
    Refusal.WALLET: _everybody,
    Refusal.FRACTION: _any_part,
    Refusal.NETWORK: _open_network,
    Refusal.OWN_TASKS_ONLY: _sandboxed,
    **{each: _larger(each) for each in (Refusal.CORES, Refusal.MEMORY, Refusal.DISK)},
}
