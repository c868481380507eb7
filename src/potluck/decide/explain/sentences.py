"""Why a task waits, in one sentence that a person can act on."""

from collections import Counter
from datetime import datetime

from msgspec import Struct

from potluck.decide.pool.feasibility import Refusal
from potluck.decide.queue.task_groups import Halt
from potluck.decide.reservations.forecast import Forecast
from potluck.model.task import WaitingReason

# Of one node, and of several.
_SENTENCES = {
    Refusal.OWN_TASKS_ONLY: (
        "runs only its owner's tasks, for want of a sandbox",
        "run only their owners' tasks, for want of a sandbox",
    ),
    Refusal.OWNER: (
        "has an owner that the task is not for",
        "have owners that the task is not for",
    ),
    Refusal.KIND: (
        "has nothing to run tasks of this kind in",
        "have nothing to run tasks of this kind in",
    ),
    Refusal.SANDBOX: (
        "has a weaker sandbox than the task wants",
        "have a weaker sandbox than the task wants",
    ),
    Refusal.PYTHON: (
        "runs another Python than the task wants",
        "run another Python than the task wants",
    ),
    Refusal.LABELS: (
        "lacks a label that the task asks for",
        "lack a label that the task asks for",
    ),
    Refusal.RELIABILITY: (
        "has lost more attempts than the task accepts",
        "have lost more attempts than the task accepts",
    ),
    Refusal.DEVICE_KIND: (
        "has no device of the wanted kind",
        "have no device of the wanted kind",
    ),
    Refusal.DEVICE_VENDOR: (
        "has no device of the wanted vendor",
        "have no device of the wanted vendor",
    ),
    Refusal.DEVICE_MODEL: (
        "has no device of the wanted model",
        "have no device of the wanted model",
    ),
    Refusal.COMPUTE_CAPABILITY: (
        "has no device with the wanted compute capability",
        "have no device with the wanted compute capability",
    ),
    Refusal.DEVICE_MEMORY: (
        "has no device with enough memory",
        "have no device with enough memory",
    ),
    Refusal.TASK_KIND: (
        "takes no tasks of this kind",
        "take no tasks of this kind",
    ),
    Refusal.WALLET: (
        "takes no tasks of this account",
        "take no tasks of this account",
    ),
    Refusal.FRACTION: (
        "gives no such small part of a device",
        "give no such small part of a device",
    ),
    Refusal.DEVICE_COUNT: ("has too few such devices", "have too few such devices"),
    Refusal.PRICE: (
        "costs more than the task wants to pay",
        "cost more than the task wants to pay",
    ),
    Refusal.CORES: ("has too few cores", "have too few cores"),
    Refusal.MEMORY: ("has too little memory", "have too little memory"),
    Refusal.DISK: ("has too little disk", "have too little disk"),
    Refusal.DEVICE_AWAY: (
        "takes no new work now: paused, outside its hours, in its owner's use, or not well",
        "take no new work now: paused, outside their hours, in their owners' use, or not well",
    ),
    Refusal.DEVICE_BUSY: ("has its devices in use", "have their devices in use"),
    Refusal.DEVICE_SHARED: (
        "has room only beside other accounts' work",
        "have room only beside other accounts' work",
    ),
    Refusal.NODE_BUSY: (
        "has too little free memory, disk or cores",
        "have too little free memory, disk or cores",
    ),
    Refusal.CREDIT: (
        "costs more than the account has left",
        "cost more than the account has left",
    ),
}


def waits_for_time() -> WaitingReason:
    return WaitingReason("back_off", "It waits a moment before it is tried again.")


def waits_for_taker(node_name: str, why_not: str) -> WaitingReason:
    """The server does not know of all that a node may lack; so the node's own sentences."""
    said = f" {why_not.rstrip('.')}." if why_not else ""
    return WaitingReason(
        "declined", f"{node_name} does not take it.{said} It is tried again after a pause."
    )


def waits_for_start(not_before: datetime) -> WaitingReason:
    return WaitingReason(
        "delayed", f"It is not to start before {not_before:%Y-%m-%d %H:%M:%S} UTC."
    )


def waits_for_tasks(count: int) -> WaitingReason:
    subject = "1 task" if count == 1 else f"{count} tasks"
    return WaitingReason("dependency", f"It waits for {subject} to succeed first.")


def waits_for_nodes(refusals: Counter[Refusal], nodes: int) -> WaitingReason:
    """The reason of most nodes comes first; `busy` ones alone mean that patience helps."""
    if nodes and not refusals:  # one has become free since the scheduler looked
        return IN_LINE
    if not refusals:
        return WaitingReason(
            "no_nodes", "No provider is online. Start one with `potluck provide URL`."
        )
    parts = [_part(refusal, count) for refusal, count in refusals.most_common()]
    return WaitingReason(refusals.most_common(1)[0][0].value, f"{'; '.join(parts)}.")


def _part(refusal: Refusal, count: int) -> str:
    one, several = _SENTENCES[refusal]
    return f"1 node {one}" if count == 1 else f"{count} nodes {several}"


def waiting_reason(halt: Halt, refusals: Counter[Refusal], nodes: int) -> WaitingReason:
    return _HALTS.get(halt) or waits_for_nodes(refusals, nodes)


class Explained(Struct, frozen=True):
    """Why a task waits, and for how long it probably will."""

    reason: WaitingReason
    nodes: int  # that were looked at
    refusals: dict[Refusal, int]
    changes: list[str]
    position: int | None
    forecast: Forecast | None


def refusal_sentence(refusal: Refusal, count: int) -> str:
    return f"{_part(refusal, count)}."


IN_LINE = WaitingReason("in_line", "It is in line; the scheduler has not come to it yet.")
_HALTS = {
    Halt.NONE: IN_LINE,
    Halt.KEPT: WaitingReason(
        "kept", "There is room, and it is kept for tasks that have waited longer."
    ),
    Halt.SLOW: WaitingReason(
        "slow",
        "There is room, on nodes too slow for the rest of the array, or on which its items fail.",
    ),
    Halt.CREDIT: WaitingReason(
        "credit", "Nothing that is free costs as little as the account has credit for."
    ),
    Halt.QUOTA: WaitingReason(
        "quota", "The account runs as many devices as it may; the next starts when one is done."
    ),
    Halt.TOO_LARGE: WaitingReason(
        "quota",
        "Asks for more devices than the account may ever run at a time. Ask for fewer, or ask the"
        " operator for a larger quota.",
    ),
}
