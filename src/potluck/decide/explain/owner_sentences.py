"""Why tasks do not come to a node, in sentences for its owner, with the figures on both sides."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from potluck.decide.explain.relaxations import FIELD_OF, MEASURE_OF, eased
from potluck.decide.pool.feasibility import Refusal, price_of, suitable
from potluck.decide.types import FreeDevice, FreeNode, WaitingTask
from potluck.model.device import Availability

# Tasks, and how many there are like each.
Asked = Sequence[tuple[WaitingTask, int]]
_Usable = tuple[WaitingTask, tuple[FreeDevice, ...]]
_MOST_NAMED = 3
_MOST_TRIED = 100

AWAY = {
    Availability.PAUSED: "its owner has paused it",
    Availability.OUTSIDE_HOURS: "it is outside its hours",
    Availability.IN_USE: "its owner uses it",
    Availability.SICK: "a device does not work as it should",
    Availability.DRAINING: "it finishes what runs, and ends",
}


class _OwnerSentence(Struct, frozen=True):
    """Of one task and of several; with what was asked for, and what the node has."""

    one: str
    several: str
    but: str = ""


_WORDS = {
    Refusal.OWN_TASKS_ONLY: _OwnerSentence(
        "is not its owner's",
        "are not its owner's",
        ", and it runs only those, for want of a sandbox",
    ),
    Refusal.OWNER: _OwnerSentence(
        "is for nodes of other wallets",
        "are for nodes of other wallets",
    ),
    Refusal.KIND: _OwnerSentence(
        "is of a kind that nothing here can run ({asked})",
        "are of kinds that nothing here can run ({asked})",
    ),
    Refusal.SANDBOX: _OwnerSentence(
        "wants a sandbox of strength {asked}",
        "want a sandbox of strength {asked}",
        ", and it has {has}",
    ),
    Refusal.PYTHON: _OwnerSentence(
        "wants Python {asked}", "want Python {asked}", ", and it runs {has}"
    ),
    Refusal.LABELS: _OwnerSentence(
        "asks for labels that it lacks{asked}", "ask for labels that it lacks{asked}"
    ),
    Refusal.RELIABILITY: _OwnerSentence(
        "wants a reliability of {asked}",
        "want a reliability of {asked}",
        ", and it has {has}, for the attempts that were lost on it",
    ),
    Refusal.DEVICE_KIND: _OwnerSentence(
        "asks for another kind of device ({asked})", "ask for another kind of device ({asked})"
    ),
    Refusal.DEVICE_VENDOR: _OwnerSentence(
        "asks for another vendor ({asked})", "ask for another vendor ({asked})"
    ),
    Refusal.DEVICE_MODEL: _OwnerSentence(
        "asks for another model ({asked})", "ask for another model ({asked})"
    ),
    Refusal.COMPUTE_CAPABILITY: _OwnerSentence(
        "asks for compute capability {asked}",
        "ask for compute capability {asked}",
        ", which its devices do not have",
    ),
    Refusal.DEVICE_MEMORY: _OwnerSentence(
        "needs {asked} of device memory",
        "need {asked} of device memory",
        ", and its devices have {has}",
    ),
    Refusal.TASK_KIND: _OwnerSentence(
        "is of a kind that its owner does not take ({asked})",
        "are of kinds that its owner does not take ({asked})",
    ),
    Refusal.WALLET: _OwnerSentence(
        "is of an account that its owner does not take",
        "are of accounts that its owner does not take",
    ),
    Refusal.FRACTION: _OwnerSentence(
        "asks for {asked} of a device",
        "ask for {asked} of a device",
        ", and it gives {has} or more",
    ),
    Refusal.DEVICE_COUNT: _OwnerSentence(
        "needs {asked} devices at once", "need {asked} devices at once", ", and it has {has}"
    ),
    Refusal.PRICE: _OwnerSentence(
        "pays {asked} an hour at most", "pay {asked} an hour at most", ", and it costs {has}"
    ),
    Refusal.CORES: _OwnerSentence(
        "needs {asked} cores", "need {asked} cores", ", and it offers {has}"
    ),
    Refusal.MEMORY: _OwnerSentence(
        "needs {asked} of memory", "need {asked} of memory", ", and it offers {has}"
    ),
    Refusal.DISK: _OwnerSentence(
        "needs {asked} of disk", "need {asked} of disk", ", and it offers {has}"
    ),
    Refusal.DEVICE_AWAY: _OwnerSentence(
        "could run on devices that take no new work now ({has})",
        "could run on devices that take no new work now ({has})",
    ),
    Refusal.DEVICE_BUSY: _OwnerSentence(
        "waits for its devices, which are in use", "wait for its devices, which are in use"
    ),
    Refusal.DEVICE_SHARED: _OwnerSentence(
        "does not fit beside the accounts that are on its devices",
        "do not fit beside the accounts that are on its devices",
    ),
    Refusal.NODE_BUSY: _OwnerSentence(
        "needs more cores, memory or disk than are free just now",
        "need more cores, memory or disk than are free just now",
    ),
    "failed_here": _OwnerSentence(
        "was lost or failed on it before, and goes elsewhere first",
        "were lost or failed on it before, and go elsewhere first",
    ),
    "credit": _OwnerSentence(
        "is of an account that can not pay for it now",
        "are of accounts that can not pay for them now",
    ),
    "quota": _OwnerSentence(
        "is of an account that runs as much as it may",
        "are of accounts that run as much as they may",
    ),
    "kept": _OwnerSentence(
        "has to leave its room to others that have waited longer",
        "have to leave its room to others that have waited longer",
    ),
    "slow": _OwnerSentence(
        "is an array for the rest of which it is too slow, or whose items fail on it",
        "are arrays for the rest of which it is too slow, or whose items fail on it",
    ),
    "in_line": _OwnerSentence(
        "could run on it, and the scheduler comes to it in a moment",
        "could run on it, and the scheduler comes to them in a moment",
    ),
}


def reason_sentence(
    code: str, node: FreeNode, asked: Asked, count: int, labels: frozenset[str]
) -> str:
    """`labels` are those that nodes of the pool have, which anybody may know."""
    words = _WORDS[code]  # a refusal is its own code
    what = f"{words.one if count == 1 else words.several}{words.but}"
    tasks = "1 waiting task" if count == 1 else f"{count:,} waiting tasks"
    about = (
        _lacking(node, asked, labels)
        if code == Refusal.LABELS
        else _ABOUT.get(code, _nothing)(node, asked)
    )
    return f"{tasks} {what.format(**about)}."


def _nothing(_node: FreeNode, _asked: Asked) -> dict[str, str]:
    return {}


def _figures(refusal: Refusal) -> Callable[[FreeNode, Asked], dict[str, str]]:
    """What has a figure: from which to which is asked for, and what there is."""
    field = FIELD_OF[refusal]
    text = MEASURE_OF[field].text

    def about(node: FreeNode, asked: Asked) -> dict[str, str]:
        wanted = [getattr(task.requirements, field) for task, _ in asked]
        low, high = (text(each, 3) for each in (min(wanted), max(wanted)))
        has = text(_HAS[refusal](node, asked), 3)
        return {"asked": low if low == high else f"{low} to {high}", "has": has}

    return about


def _would_do(refusal: Refusal, node: FreeNode, asked: Asked) -> Iterator[_Usable]:
    """The devices that would serve some of the tasks but for this; all, if there are no such."""
    measure = MEASURE_OF[FIELD_OF[refusal]]
    found = False
    for task, _ in islice(asked, _MOST_TRIED):
        devices = suitable(eased(task, measure.field, measure.least), node)
        if not isinstance(devices, Refusal):
            found = True
            yield task, devices
    if not found:
        yield asked[0][0], node.devices


def _cheapest(node: FreeNode, asked: Asked) -> float:
    return min(
        price_of(task.requirements, each, node.cores)
        for task, devices in _would_do(Refusal.PRICE, node, asked)
        for each in devices
    )


def _largest_memory(node: FreeNode, asked: Asked) -> float:
    found = _would_do(Refusal.DEVICE_MEMORY, node, asked)
    return max(each.memory_bytes for _, devices in found for each in devices)


def _least_part(node: FreeNode, asked: Asked) -> float:
    found = _would_do(Refusal.FRACTION, node, asked)
    return min(each.least_milli for _, devices in found for each in devices)


def _most_devices(node: FreeNode, asked: Asked) -> float:
    found = _would_do(Refusal.DEVICE_COUNT, node, asked)
    return max(len(devices) for _, devices in found)


_HAS: dict[Refusal, Callable[[FreeNode, Asked], float]] = {
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
) -> Callable[[FreeNode, Asked], dict[str, str]]:
    """What has a name: the few that are asked for most."""

    def about(_node: FreeNode, asked: Asked) -> dict[str, str]:
        names: Counter[str] = Counter()
        for task, count in asked:
            for name in of(task):
                names[name] += count
        return {"asked": ", ".join(name for name, _ in names.most_common(_MOST_NAMED))}

    return about


def _sandboxes(node: FreeNode, asked: Asked) -> dict[str, str]:
    wanted = _named(lambda task: _said(task.requirements.sandbox))(node, asked)
    has = {node.strength_for(task.kind) or node.sandbox for task, _ in asked}
    return {**wanted, "has": " or ".join(sorted(has))}


def _pythons(node: FreeNode, asked: Asked) -> dict[str, str]:
    wanted = _named(lambda task: _said(task.requirements.python))(node, asked)
    return {**wanted, "has": node.python or "one that it does not name"}


def _lacking(node: FreeNode, asked: Asked, labels: frozenset[str]) -> dict[str, str]:
    """What a task asks for in words of its own is for nobody else."""
    told = labels - node.labels
    lacking = _named(lambda task: [each for each in task.requirements.labels if each in told])
    names = lacking(node, asked)["asked"]
    return {"asked": f" ({names})" if names else ""}


def _away(node: FreeNode, _asked: Asked) -> dict[str, str]:
    why = {AWAY[each.availability] for each in node.devices if not each.is_available}
    return {"has": ", ".join(sorted(why))}


def _said(value: str | None) -> list[str]:
    return [] if value is None else [str(value)]


_ABOUT: dict[str, Callable[[FreeNode, Asked], dict[str, str]]] = {
    **{refusal: _figures(refusal) for refusal in _HAS},
    Refusal.KIND: _named(lambda task: [task.kind]),
    Refusal.SANDBOX: _sandboxes,
    Refusal.PYTHON: _pythons,
    Refusal.DEVICE_KIND: _named(lambda task: _said(task.requirements.device_kind)),
    Refusal.DEVICE_VENDOR: _named(lambda task: _said(task.requirements.device_vendor)),
    Refusal.DEVICE_MODEL: _named(lambda task: _said(task.requirements.device_model)),
    Refusal.COMPUTE_CAPABILITY: _named(lambda task: _said(task.requirements.compute_capability)),
    Refusal.TASK_KIND: _named(lambda task: [task.kind]),
    Refusal.DEVICE_AWAY: _away,
}
