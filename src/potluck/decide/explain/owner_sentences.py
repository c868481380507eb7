"""Sentences for an owner: why tasks do not come to a node, with the figures of both sides."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from potluck.decide.explain.relaxations import FIELD_OF, MEASURE_OF, relax
from potluck.decide.pool.feasibility import Refusal, price_of, suitable
from potluck.decide.types import FreeDevice, FreeNode, WaitingTask
from potluck.model.device import Availability

# Tasks, and how many of each there are.
TaskCounts = Sequence[tuple[WaitingTask, int]]
_Usable = tuple[WaitingTask, tuple[FreeDevice, ...]]
_MOST_NAMED = 3
_MOST_TRIED = 100

AWAY = {
    Availability.PAUSED: "its owner has paused it",
    Availability.OUTSIDE_HOURS: "it is outside its hours",
    Availability.IN_USE: "its owner is using it",
    Availability.SICK: "a device is faulty",
    Availability.DRAINING: "it is shutting down after its running tasks",
}


class _OwnerSentence(Struct, frozen=True):
    """For one task and for several; `{asked}` is the requirement, `{has}` what the node has."""

    one: str
    several: str
    but: str = ""


_WORDS = {
    Refusal.OWN_TASKS_ONLY: _OwnerSentence(
        "belongs to another account",
        "belong to other accounts",
        ", but without a sandbox that limits memory and processes it runs only its owner's",
    ),
    Refusal.OWNER: _OwnerSentence(
        "does not allow this owner's nodes", "do not allow this owner's nodes"
    ),
    Refusal.KIND: _OwnerSentence(
        "is of a kind that it cannot run ({asked})", "are of kinds that it cannot run ({asked})"
    ),
    Refusal.STDIN: _OwnerSentence(
        "has a stdin", "have a stdin", ", which needs a newer version of Potluck"
    ),
    Refusal.SANDBOX: _OwnerSentence(
        "requires a sandbox of strength {asked}",
        "require a sandbox of strength {asked}",
        ", but it has {has}",
    ),
    Refusal.PYTHON: _OwnerSentence(
        "requires Python {asked}", "require Python {asked}", ", but it runs {has}"
    ),
    Refusal.LABELS: _OwnerSentence(
        "requires labels that it lacks{asked}", "require labels that it lacks{asked}"
    ),
    Refusal.RELIABILITY: _OwnerSentence(
        "requires a reliability of {asked}",
        "require a reliability of {asked}",
        ", but it has {has} because attempts were lost on it",
    ),
    Refusal.DEVICE_KIND: _OwnerSentence(
        "requires another kind of device ({asked})", "require another kind of device ({asked})"
    ),
    Refusal.DEVICE_VENDOR: _OwnerSentence(
        "requires another vendor ({asked})", "require another vendor ({asked})"
    ),
    Refusal.DEVICE_MODEL: _OwnerSentence(
        "requires another model ({asked})", "require another model ({asked})"
    ),
    Refusal.COMPUTE_CAPABILITY: _OwnerSentence(
        "requires compute capability {asked}",
        "require compute capability {asked}",
        ", which its devices do not have",
    ),
    Refusal.DEVICE_MEMORY: _OwnerSentence(
        "needs {asked} of device memory",
        "need {asked} of device memory",
        ", but its devices have {has}",
    ),
    Refusal.TASK_KIND: _OwnerSentence(
        "is of a kind that its owner does not accept ({asked})",
        "are of kinds that its owner does not accept ({asked})",
    ),
    Refusal.WALLET: _OwnerSentence(
        "belongs to an account that its owner does not accept",
        "belong to accounts that its owner does not accept",
    ),
    Refusal.FRACTION: _OwnerSentence(
        "requests {asked} of a device",
        "request {asked} of a device",
        ", but it offers {has} or more",
    ),
    Refusal.NETWORK: _OwnerSentence(
        "needs network that its owner does not allow",
        "need network that its owner does not allow",
        " (`potluck provider set network=…`)",
    ),
    Refusal.DEVICE_COUNT: _OwnerSentence(
        "needs {asked} devices at once", "need {asked} devices at once", ", but it has {has}"
    ),
    Refusal.PRICE: _OwnerSentence(
        "pays at most {asked} an hour", "pay at most {asked} an hour", ", but it costs {has}"
    ),
    Refusal.CORES: _OwnerSentence(
        "needs {asked} cores", "need {asked} cores", ", but it offers {has}"
    ),
    Refusal.MEMORY: _OwnerSentence(
        "needs {asked} of memory", "need {asked} of memory", ", but it offers {has}"
    ),
    Refusal.DISK: _OwnerSentence(
        "needs {asked} of disk", "need {asked} of disk", ", but it offers {has}"
    ),
    Refusal.VOLUMES: _OwnerSentence(
        "mounts more volumes than it has disk for",
        "mount more volumes than it has disk for",
        " (--volumes)",
    ),
    Refusal.CORDONED: _OwnerSentence(
        "fits", "fit", ", but an admin cordoned it: it gets no new work"
    ),
    Refusal.DEVICE_AWAY: _OwnerSentence(
        "could run on devices that take no new work now ({has})",
        "could run on devices that take no new work now ({has})",
    ),
    Refusal.DEVICE_BUSY: _OwnerSentence(
        "waits for its devices, which are in use", "wait for its devices, which are in use"
    ),
    Refusal.DEVICE_SHARED: _OwnerSentence(
        "cannot share a device with the accounts that use it now",
        "cannot share a device with the accounts that use it now",
    ),
    Refusal.NODE_BUSY: _OwnerSentence(
        "needs more cores, memory or disk than are free now",
        "need more cores, memory or disk than are free now",
    ),
    "failed_here": _OwnerSentence(
        "was lost or failed on it before and tries other nodes first",
        "were lost or failed on it before and try other nodes first",
    ),
    "credit": _OwnerSentence(
        "belongs to an account that cannot pay for it now",
        "belong to accounts that cannot pay for them now",
    ),
    "quota": _OwnerSentence(
        "belongs to an account that has reached its quota",
        "belong to accounts that have reached their quota",
    ),
    "kept": _OwnerSentence(
        "must leave its free capacity to tasks that have waited longer",
        "must leave its free capacity to tasks that have waited longer",
    ),
    "slow": _OwnerSentence(
        "is an array for whose remaining items it is too slow, or whose items fail on it",
        "are arrays for whose remaining items it is too slow, or whose items fail on it",
    ),
    "in_line": _OwnerSentence(
        "could run on it and will be scheduled shortly",
        "could run on it and will be scheduled shortly",
    ),
}


def reason_sentence(
    code: str, node: FreeNode, asked: TaskCounts, count: int, labels: frozenset[str]
) -> str:
    """`labels` are those of the pool's nodes, which are public; others are not shown."""
    words = _WORDS[code]  # a refusal is its own code
    what = f"{words.one if count == 1 else words.several}{words.but}"
    tasks = "1 waiting task" if count == 1 else f"{count:,} waiting tasks"
    about = (
        _lacking(node, asked, labels)
        if code == Refusal.LABELS
        else _ABOUT.get(code, _nothing)(node, asked)
    )
    return f"{tasks} {what.format(**about)}."


def _nothing(_node: FreeNode, _asked: TaskCounts) -> dict[str, str]:
    return {}


def _figures(refusal: Refusal) -> Callable[[FreeNode, TaskCounts], dict[str, str]]:
    """For requirements with a figure: the range that tasks require, and what the node has."""
    field = FIELD_OF[refusal]
    text = MEASURE_OF[field].text

    def about(node: FreeNode, asked: TaskCounts) -> dict[str, str]:
        wanted = [getattr(task.requirements, field) for task, _ in asked]
        low, high = (text(each, 3) for each in (min(wanted), max(wanted)))
        has = text(_HAS[refusal](node, asked), 3)
        return {"asked": low if low == high else f"{low} to {high}", "has": has}

    return about


def _would_do(refusal: Refusal, node: FreeNode, asked: TaskCounts) -> Iterator[_Usable]:
    """The devices that would serve some of the tasks without this refusal; all if none would."""
    measure = MEASURE_OF[FIELD_OF[refusal]]
    found = False
    for task, _ in islice(asked, _MOST_TRIED):
        devices = suitable(relax(task, measure.field, measure.least), node)
        if not isinstance(devices, Refusal):
            found = True
            yield task, devices
    if not found:
        yield asked[0][0], node.devices


def _cheapest(node: FreeNode, asked: TaskCounts) -> float:
    return min(
        price_of(task.requirements, each, node.cores)
        for task, devices in _would_do(Refusal.PRICE, node, asked)
        for each in devices
    )


def _largest_memory(node: FreeNode, asked: TaskCounts) -> float:
    found = _would_do(Refusal.DEVICE_MEMORY, node, asked)
    return max(each.memory_bytes for _, devices in found for each in devices)


def _least_part(node: FreeNode, asked: TaskCounts) -> float:
    found = _would_do(Refusal.FRACTION, node, asked)
    return min(each.least_milli for _, devices in found for each in devices)


def _most_devices(node: FreeNode, asked: TaskCounts) -> float:
    found = _would_do(Refusal.DEVICE_COUNT, node, asked)
    return max(len(devices) for _, devices in found)


_HAS: dict[Refusal, Callable[[FreeNode, TaskCounts], float]] = {
    Refusal.RELIABILITY: lambda node, _: node.reliability,
    Refusal.DEVICE_MEMORY: _largest_memory,
    Refusal.FRACTION: _least_part,
    Refusal.DEVICE_COUNT: _most_devices,
    Refusal.PRICE: _cheapest,
    Refusal.CORES: lambda node, _: node.cores,
    Refusal.MEMORY: lambda node, _: node.memory_bytes,
    Refusal.DISK: lambda node, _: node.disk_bytes,
}


def _named(
    of: Callable[[WaitingTask], Sequence[str]],
) -> Callable[[FreeNode, TaskCounts], dict[str, str]]:
    """For requirements with a name: the few that most tasks require."""

    def about(_node: FreeNode, asked: TaskCounts) -> dict[str, str]:
        names: Counter[str] = Counter()
        for task, count in asked:
            for name in of(task):
                names[name] += count
        return {"asked": ", ".join(name for name, _ in names.most_common(_MOST_NAMED))}

    return about


def _sandboxes(node: FreeNode, asked: TaskCounts) -> dict[str, str]:
    wanted = _named(lambda task: _as_list(task.requirements.sandbox))(node, asked)
    has = {node.strength_for(task.kind) or node.sandbox for task, _ in asked}
    return {**wanted, "has": " or ".join(sorted(has))}


def _pythons(node: FreeNode, asked: TaskCounts) -> dict[str, str]:
    wanted = _named(lambda task: _as_list(task.requirements.python))(node, asked)
    versions = ", ".join((node.python, *node.more_pythons))
    return {**wanted, "has": versions or "an unknown version"}


def _lacking(node: FreeNode, asked: TaskCounts, labels: frozenset[str]) -> dict[str, str]:
    """Only labels of the pool's nodes are shown: others may be private to their account."""
    known = labels - node.labels
    lacking = _named(lambda task: [each for each in task.requirements.labels if each in known])
    names = lacking(node, asked)["asked"]
    return {"asked": f" ({names})" if names else ""}


def _away(node: FreeNode, _asked: TaskCounts) -> dict[str, str]:
    why = {AWAY[each.availability] for each in node.devices if not each.is_available}
    return {"has": ", ".join(sorted(why))}


def _as_list(value: str | None) -> list[str]:
    return [] if value is None else [str(value)]


_ABOUT: dict[str, Callable[[FreeNode, TaskCounts], dict[str, str]]] = {
    **{refusal: _figures(refusal) for refusal in _HAS},
    Refusal.KIND: _named(lambda task: [task.kind]),
    Refusal.SANDBOX: _sandboxes,
    Refusal.PYTHON: _pythons,
    Refusal.DEVICE_KIND: _named(lambda task: _as_list(task.requirements.device_kind)),
    Refusal.DEVICE_VENDOR: _named(lambda task: _as_list(task.requirements.device_vendor)),
    Refusal.DEVICE_MODEL: _named(lambda task: _as_list(task.requirements.device_model)),
    Refusal.COMPUTE_CAPABILITY: _named(lambda task: _as_list(task.requirements.compute_capability)),
    Refusal.TASK_KIND: _named(lambda task: [task.kind]),
    Refusal.DEVICE_AWAY: _away,
}
