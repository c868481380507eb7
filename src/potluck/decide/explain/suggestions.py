"""Suggestions for a waiting task: requirements, relaxed one at a time, that admit more nodes.

Where every node refuses several requirements, it names all that the closest nodes refuse.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from potluck.decide.explain.relaxations import FIELD_OF, MEASURE_OF, MEASURES, PLAIN, relax
from potluck.decide.explain.similar_models import describe_models
from potluck.decide.pool.feasibility import Refusal, suitable
from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.script import suits_python

# A node, and how many there are of its kind.
Kinds = Sequence[tuple[FreeNode, int]]
# A suggested figure should admit at least this many nodes.
_ENOUGH_NODES = 3
# The minor version of a node's Python, of which it may say anything.
_MINOR = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])")
# Size of the sample in a large pool, where hardly any two machines are equal, and of its devices.
MOST_KINDS = 1000
MOST_KIND_DEVICES = 4000


def suggest_changes(task: WaitingTask, kinds: Kinds) -> list[str]:
    """Sentences, most nodes first."""
    devices = sum(len(node.devices) for node, _ in kinds)
    stride = 1 + max((len(kinds) - 1) // MOST_KINDS, (devices - 1) // MOST_KIND_DEVICES, 0)
    some = kinds[::stride]
    rest = [(node, count) for node, count in some if isinstance(suitable(task, node), Refusal)]
    found = [*_without(task, rest), *_with_less(task, rest)] or _nearest(task, rest)
    found.sort(key=lambda each: -each[0])
    about = "About " if stride > 1 else ""
    more = "more " if len(rest) < len(some) else ""
    return [
        *_other_models(task, some),
        *_other_pythons(task, some),
        *(
            f"{about}{_nodes(stride * count, more)} would take it {condition}."
            for count, condition in found
        ),
    ]


def _other_models(task: WaitingTask, kinds: Kinds) -> Iterator[str]:
    """What the requested model may have been meant to be, if nothing on offer matches it."""
    model = task.requirements.device_model
    others = None if model is None else describe_models(model, (node for node, _ in kinds))
    if others is not None:
        yield f"No device on offer matches the model {model}; {others}."


def _other_pythons(task: WaitingTask, kinds: Kinds) -> Iterator[str]:
    """The versions on offer, if none of them is what the task requires."""
    required = task.requirements.python
    if required is None:
        return
    known = {version for node, _ in kinds for version in (node.python, *node.more_pythons)}
    if any(suits_python(required, version) for version in known):
        return
    minors = sorted(
        (int(match[1]), int(match[2])) for version in known if (match := _MINOR.match(version))
    )
    if minors:
        names = dict.fromkeys(f"{major}.{minor}" for major, minor in minors)
        yield f"No node has Python {required}; versions on offer: {', '.join(names)}."


def _without(task: WaitingTask, rest: Kinds) -> Iterator[tuple[int, str]]:
    """Requirements without a figure: drops each of them."""
    for field in PLAIN:
        asked = getattr(task.requirements, field)
        if asked is not None and (count := _count(relax(task, field, None), rest)):
            yield count, _not_asking(task, field)
    if task.requirements.owners and (count := _count(relax(task, "owners", ()), rest)):
        yield count, _ANY_OWNER
    if task.requirements.network and (count := _count(relax(task, "network", ()), rest)):
        yield count, _NO_NETWORK
    for label in task.requirements.labels:
        others = tuple(each for each in task.requirements.labels if each != label)
        if count := _count(relax(task, "labels", others), rest):
            yield count, _not_asking_for_label(label)


def _with_less(task: WaitingTask, rest: Kinds) -> Iterator[tuple[int, str]]:
    """Requirements with a figure: the closest figure that admits enough nodes."""
    for measure in MEASURES:
        asked = measure.asked(task)
        if asked is None:
            continue
        figures = [
            (figure, count)
            for node, count in rest
            if (figure := measure.nearest(task, node)) is not None
        ]
        if figures:
            figures.sort(key=lambda each: each[0], reverse=not measure.is_ceiling)
            figure, count = _reach(figures)
            yield count, measure.condition(figure, asked)


def _reach(figures: list[tuple[float, int]]) -> tuple[float, int]:
    """The closest figure that admits enough nodes, and how many it admits."""
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


def _nearest(task: WaitingTask, rest: Kinds) -> list[tuple[int, str]]:
    """Everything to relax for the nodes that refuse the fewest requirements."""
    lacks: Counter[tuple[str, ...]] = Counter()
    for node, count in rest:
        conditions = _conditions(task, node)
        if conditions is not None:
            lacks[conditions] += count
    if not lacks:
        return []
    fewest = min(map(len, lacks))
    conditions, count = max(
        (each for each in lacks.items() if len(each[0]) == fewest), key=lambda each: each[1]
    )
    return [(count, " and ".join(conditions))]


def _conditions(task: WaitingTask, node: FreeNode) -> tuple[str, ...] | None:
    """The conditions under which the node takes the task; None if no requirement could help."""
    fields: list[str] = []
    relaxed = task
    while isinstance(refusal := suitable(relaxed, node), Refusal):
        field = FIELD_OF.get(refusal)
        if field is None or field in fields:
            return None
        fields.append(field)
        relaxed = relax(relaxed, field, _least(task, field, node))
    conditions: list[str] = []
    # The price comes last: it depends on the other figures.
    for field in sorted(fields, key=lambda each: each == "max_price_micro_per_hour"):
        measure = MEASURE_OF.get(field)
        if measure is not None:
            asked, figure = measure.asked(task), measure.nearest(relaxed, node)
            assert asked is not None and figure is not None, f"{field} was refused"
            conditions.append(measure.condition(figure, asked))
            relaxed = relax(relaxed, field, figure)
        elif field == "labels":
            lacking = (each for each in task.requirements.labels if each not in node.labels)
            conditions += map(_not_asking_for_label, lacking)
        elif field == "owners":
            conditions.append(_ANY_OWNER)
        elif field == "network":
            conditions.append(_NO_NETWORK)
        else:
            conditions.append(_not_asking(task, field))
    return tuple(conditions)


def _least(task: WaitingTask, field: str, node: FreeNode) -> object:
    if field == "labels":
        return tuple(each for each in task.requirements.labels if each in node.labels)
    if field in ("owners", "network"):
        return ()
    measure = MEASURE_OF.get(field)
    return None if measure is None else measure.least


def _not_asking(task: WaitingTask, field: str) -> str:
    return f"if it did not require {PLAIN[field]} {getattr(task.requirements, field)}"


_ANY_OWNER = "if it allowed nodes of any owner"
_NO_NETWORK = "if it did not need the network"


def _not_asking_for_label(label: str) -> str:
    return f"if it did not require the label {label}"


def _count(task: WaitingTask, rest: Kinds) -> int:
    return sum(count for node, count in rest if not isinstance(suitable(task, node), Refusal))


def _nodes(count: int, more: str) -> str:
    return f"{count} {more}{'node' if count == 1 else 'nodes'}"
