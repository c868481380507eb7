"""Waiting reasons of tasks, each a sentence that the user can act on."""

from collections import Counter
from datetime import datetime

from msgspec import Struct

from potluck.decide.pool.feasibility import Refusal
from potluck.decide.queue.task_groups import BlockReason
from potluck.decide.reservations.forecast import Forecast
from potluck.model.task import WaitingReason

_SECRETS = " (secrets go only to your own nodes and to wallets you trust: --trust)"
# For one node, and for several.
_SENTENCES = {
    Refusal.OWN_TASKS_ONLY: (
        "runs only its owner's tasks, because no sandbox limits memory and processes there",
        "run only their owners' tasks, because no sandbox limits memory and processes there",
    ),
    Refusal.OWNER: (
        f"has an owner that the task does not allow{_SECRETS}",
        f"have owners that the task does not allow{_SECRETS}",
    ),
    Refusal.KIND: (
        "cannot run this kind of task (images need a container engine)",
        "cannot run this kind of task (images need a container engine)",
    ),
    Refusal.STDIN: (
        "runs an older Potluck, which cannot pass stdin to a task",
        "run an older Potluck, which cannot pass stdin to a task",
    ),
    Refusal.SANDBOX: (
        "has a weaker sandbox than the task requires",
        "have a weaker sandbox than the task requires",
    ),
    Refusal.PYTHON: (
        "has no Python version that the task requires",
        "have no Python version that the task requires",
    ),
    Refusal.LABELS: ("lacks a label that the task requires", "lack a label that the task requires"),
    Refusal.RELIABILITY: (
        "is less reliable than the task requires",
        "are less reliable than the task requires",
    ),
    Refusal.DEVICE_KIND: (
        "has no device of the requested kind",
        "have no device of the requested kind",
    ),
    Refusal.DEVICE_VENDOR: (
        "has no device of the requested vendor",
        "have no device of the requested vendor",
    ),
    Refusal.DEVICE_MODEL: (
        "has no device of the requested model",
        "have no device of the requested model",
    ),
    Refusal.COMPUTE_CAPABILITY: (
        "has no device with the requested compute capability",
        "have no device with the requested compute capability",
    ),
    Refusal.DEVICE_MEMORY: (
        "has no device with enough memory",
        "have no device with enough memory",
    ),
    Refusal.TASK_KIND: ("does not accept tasks of this kind", "do not accept tasks of this kind"),
    Refusal.WALLET: (
        "does not accept tasks of this account",
        "do not accept tasks of this account",
    ),
    Refusal.FRACTION: (
        "does not offer such a small share of a device",
        "do not offer such a small share of a device",
    ),
    Refusal.NETWORK: (
        "does not give the task the network that it asks for (--network, --network-limit)",
        "do not give the task the network that it asks for (--network, --network-limit)",
    ),
    Refusal.DEVICE_COUNT: ("has too few suitable devices", "have too few suitable devices"),
    Refusal.PRICE: (
        "costs more than the task's price ceiling",
        "cost more than the task's price ceiling",
    ),
    Refusal.CORES: ("has too few cores", "have too few cores"),
    Refusal.MEMORY: ("has too little memory", "have too little memory"),
    Refusal.DISK: ("has too little disk", "have too little disk"),
    Refusal.VOLUMES: (
        "has less disk for volumes than the task mounts",
        "have less disk for volumes than the task mounts",
    ),
    Refusal.CORDONED: (
        "takes no new work because an admin cordoned it",
        "take no new work because an admin cordoned them",
    ),
    Refusal.DEVICE_AWAY: (
        "takes no new work now: paused, outside its hours, used by its owner, or faulty",
        "take no new work now: paused, outside their hours, used by their owners, or faulty",
    ),
    Refusal.DEVICE_BUSY: ("has its devices in use", "have their devices in use"),
    Refusal.DEVICE_SHARED: (
        "has free capacity only on devices that other accounts use",
        "have free capacity only on devices that other accounts use",
    ),
    Refusal.NODE_BUSY: (
        "has too few free cores or too little free memory or disk",
        "have too few free cores or too little free memory or disk",
    ),
    Refusal.CREDIT: (
        "costs more than the account's remaining credit",
        "cost more than the account's remaining credit",
    ),
}


def waits_for_back_off() -> WaitingReason:
    return WaitingReason("back_off", "It waits for a short time before the next attempt.")


def waits_after_decline(node_name: str, why_not: str) -> WaitingReason:
    """Quotes the node, because the server does not know everything that a node may lack."""
    said = f" {why_not.rstrip('.')}." if why_not else ""
    return WaitingReason(
        "declined", f"{node_name} declined it.{said} It will be retried after a pause."
    )


def waits_for_start(not_before: datetime) -> WaitingReason:
    return WaitingReason("delayed", f"It must not start before {not_before:%Y-%m-%d %H:%M:%S} UTC.")


def waits_for_tasks(count: int) -> WaitingReason:
    subject = "1 task" if count == 1 else f"{count} tasks"
    return WaitingReason("dependency", f"It waits for {subject} to succeed first.")


def waits_for_nodes(refusals: Counter[Refusal], nodes: int) -> WaitingReason:
    """The reason of most nodes comes first."""
    if nodes and not refusals:  # a node has become free since the last round
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


def waiting_reason(
    block_reason: BlockReason, refusals: Counter[Refusal], nodes: int
) -> WaitingReason:
    return _BLOCK_REASONS.get(block_reason) or waits_for_nodes(refusals, nodes)


class Explained(Struct, frozen=True):
    """Why a task waits, and when it will probably start."""

    reason: WaitingReason
    nodes: int  # that were checked
    refusals: dict[Refusal, int]
    changes: list[str]
    position: int | None
    forecast: Forecast | None


def refusal_sentence(refusal: Refusal, count: int) -> str:
    return f"{_part(refusal, count)}."


IN_LINE = WaitingReason("in_line", "It is queued; the scheduler has not processed it yet.")
_BLOCK_REASONS = {
    BlockReason.NONE: IN_LINE,
    BlockReason.KEPT: WaitingReason(
        "kept", "The free capacity is reserved for tasks that have waited longer."
    ),
    BlockReason.SLOW: WaitingReason(
        "slow", "The free nodes are too slow for the rest of the array, or its items fail on them."
    ),
    BlockReason.CREDIT: WaitingReason(
        "credit", "Every free node costs more than the account's remaining credit."
    ),
    BlockReason.QUOTA: WaitingReason(
        "quota", "The account has reached its quota of devices; the task starts when others end."
    ),
    BlockReason.TOO_LARGE: WaitingReason(
        "quota",
        "It requests more devices than the account's quota allows. Request fewer, or ask the"
        " operator for a larger quota.",
    ),
}
