"""What would have to change for a task to find more nodes: one requirement eased at a time."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from potluck.decide.pool.feasible import Refusal, price_of, suitable
from potluck.decide.snapshot import FreeDevice, FreeNode, WaitingTask
from potluck.model.credit import MICRO
from potluck.model.task import GIB, MIB

# A node, and how many there are of its kind.
Kinds = Sequence[tuple[FreeNode, int]]
# So many nodes are enough to name a figure for.
_ENOUGH_NODES = 3


def changes(task: WaitingTask, kinds: Kinds) -> list[str]:
    """Sentences, those that would bring the most nodes first."""
    rest = [(node, count) for node, count in kinds if isinstance(suitable(task, node), Refusal)]
    found = [*_without(task, rest), *_with_less(task, rest)]
    found.sort(key=lambda each: -each[0])
    return [f"{_nodes(count)} would take it {condition}." for count, condition in found]


def _without(task: WaitingTask, rest: Kinds) -> Iterator[tuple[int, str]]:
    """What has no figure: if it did not ask for that at all?"""
    wanted = task.requirements
    for field, words in _PLAIN.items():
        asked = getattr(wanted, field)
        if asked is not None and (count := _count(_eased(task, field, None), rest)):
            yield count, f"if it did not ask for {words} {asked}"
    for label in wanted.labels:
        others = tuple(each for each in wanted.labels if each != label)
        if count := _count(_eased(task, "labels", others), rest):
            yield count, f"if it did not ask for the label {label}"


def _with_less(task: WaitingTask, rest: Kinds) -> Iterator[tuple[int, str]]:
    """What has a figure: with which one would there be some nodes?"""
    for measure in _MEASURES:
        asked = getattr(task.requirements, measure.field)
        if asked is None or asked == measure.least:
            continue
        eased = _eased(task, measure.field, measure.least)
        figures = [
            (measure.of_node(node, devices, task), count)
            for node, count in rest
            if not isinstance(devices := suitable(eased, node), Refusal)
        ]
        if figures:
            figures.sort(key=lambda each: each[0], reverse=not measure.is_ceiling)
            figure, count = _reach(figures)
            yield count, measure.words.format(measure.text(figure), measure.text(asked))


def _reach(figures: list[tuple[float, int]]) -> tuple[float, int]:
    """The figure next to what was asked that brings enough nodes, and how many it brings."""
    total = 0
    reached: float | None = None
    for figure, count in figures:
        if reached is not None and figure != reached:
            break
        total += count
        if total >= _ENOUGH_NODES or figure == figures[-1][0]:
            reached = figure
    assert reached is not None
    return reached, total


def _count(task: WaitingTask, rest: Kinds) -> int:
    return sum(count for node, count in rest if not isinstance(suitable(task, node), Refusal))


def _eased(task: WaitingTask, field: str, value: object) -> WaitingTask:
    eased = msgspec.structs.replace(task.requirements, **{field: value})
    return msgspec.structs.replace(task, requirements=eased)


def _nodes(count: int) -> str:
    return "1 more node" if count == 1 else f"{count} more nodes"


_Devices = tuple[FreeDevice, ...]


class _Measure(Struct, frozen=True):
    """A requirement with a figure, and what a node has of it."""

    field: str
    least: int | float | None
    of_node: Callable[[FreeNode, _Devices, WaitingTask], float]
    text: Callable[[float], str]
    words: str
    is_ceiling: bool = False


def _price(node: FreeNode, devices: _Devices, task: WaitingTask) -> float:
    """Of all that the task would take there, as the ceiling is."""
    wanted = task.requirements
    return sorted(price_of(wanted, each, node.cores) for each in devices)[wanted.device_count - 1]


def _memory(_node: FreeNode, devices: _Devices, task: WaitingTask) -> float:
    count = task.requirements.device_count
    return sorted((each.memory_bytes for each in devices), reverse=True)[count - 1]


def _bytes_text(figure: float) -> str:
    return f"{figure / GIB:.3g} GiB" if figure >= GIB else f"{figure / MIB:.3g} MiB"


def _credit_text(figure: float) -> str:
    """To the last digit that counts: a ceiling that was rounded down would not help."""
    whole, part = f"{figure / MICRO:.6f}".split(".")
    return f"{whole}.{part.rstrip('0'):0<2}"


def _count_text(figure: float) -> str:
    return f"{figure:g}"


_PLAIN = {
    "device_kind": "a device of kind",
    "device_vendor": "the vendor",
    "device_model": "the model",
    "compute_capability": "compute capability",
    "sandbox": "a sandbox of strength",
}
_MEASURES = (
    _Measure(
        "max_price_micro_per_hour",
        None,
        _price,
        _credit_text,
        "with a price ceiling of {} an hour instead of {}",
        is_ceiling=True,
    ),
    _Measure(
        "device_memory_bytes",
        0,
        _memory,
        _bytes_text,
        "if it asked for {} of device memory instead of {}",
    ),
    _Measure(
        "device_count",
        1,
        lambda _node, devices, _task: len(devices),
        _count_text,
        "if it asked for {} devices on one node instead of {}",
    ),
    _Measure(
        "min_reliability",
        None,
        lambda node, _devices, _task: node.reliability,
        lambda figure: f"{figure:.2f}",
        "if a reliability of {} were enough instead of {}",
    ),
    _Measure(
        "cores",
        1,
        lambda node, _devices, _task: node.cores,
        _count_text,
        "if it asked for {} cores instead of {}",
    ),
    _Measure(
        "memory_bytes",
        16 * MIB,
        lambda node, _devices, _task: node.memory_bytes,
        _bytes_text,
        "if it asked for {} of memory instead of {}",
    ),
    _Measure(
        "disk_bytes",
        MIB,
        lambda node, _devices, _task: node.disk_bytes,
        _bytes_text,
        "if it asked for {} of disk instead of {}",
    ),
)
