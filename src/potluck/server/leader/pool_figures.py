"""The pool-wide gauges, from the leader's memory and from the database."""

from collections import defaultdict
from collections.abc import Mapping

from potluck.decide.queue.queue_depth import QueueDepth
from potluck.local.metrics.definition import MetricDefinition
from potluck.local.metrics.registry import LabelledValues
from potluck.model.credit import MICRO
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.server.metrics import definitions as names
from potluck.store.pool_figures import DeviceFigures, PoolFigures

_OFFERED = ("free", "busy")

Gauges = Mapping[MetricDefinition, LabelledValues]
_NO_LABELS: tuple[str, ...] = ()


def pool_gauges(
    figures: PoolFigures, queue: Mapping[tuple[int, str], QueueDepth], now: float
) -> Gauges:
    nodes, outbox, backed_up_at = figures.nodes, figures.outbox, figures.backed_up_at
    return {
        **_queue_gauges(queue, now),
        names.NODES: {("online",): nodes.online, ("silent",): nodes.silent},
        names.NODES_MISSING: {_NO_LABELS: nodes.missing},
        **_device_gauges(figures.devices),
        names.ATTEMPTS: {(state,): count for state, count in figures.attempts.items()},
        names.LEDGER: {(purse,): micro / MICRO for purse, micro in figures.balances_micro.items()},
        names.LEDGER_IMBALANCE: {_NO_LABELS: sum(figures.balances_micro.values()) / MICRO},
        names.BACKUP: {_NO_LABELS: backed_up_at.timestamp() if backed_up_at else 0.0},
        names.EPOCH_OVERDUE: {_NO_LABELS: figures.rewards.epoch_overdue_seconds},
        names.PAYOUT_AGE: {_NO_LABELS: figures.rewards.payout_age_seconds},
        **_contract_gauges(figures),
        names.OUTBOX: {_NO_LABELS: outbox.events},
        names.OUTBOX_LAG: {_NO_LABELS: outbox.lag_seconds},
    }


def _contract_gauges(figures: PoolFigures) -> Gauges:
    contracts = figures.contracts
    return {
        names.PAYOUT_TRANSACTIONS: {
            (state,): count for state, count in figures.payout_transactions.items()
        },
        names.CHAIN_LAG: {(contract.contract,): contract.lag_blocks for contract in contracts},
        names.PAYOUTS_STOPPED: {
            (contract.contract,): contract.is_stopped for contract in contracts
        },
        names.PAYOUT_WAIT: {(contract.contract,): contract.wait_seconds for contract in contracts},
    }


def _queue_gauges(queue: Mapping[tuple[int, str], QueueDepth], now: float) -> Gauges:
    tasks: defaultdict[tuple[str, ...], float] = defaultdict(float)
    oldest: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for (priority, reason), depth in queue.items():
        labels = _priority_class(priority), reason
        tasks[labels] += depth.tasks
        oldest[labels] = max(oldest[labels], now - depth.oldest_at)
    return {names.QUEUE: tasks, names.QUEUE_AGE: oldest}


def _priority_class(priority: int) -> str:
    """There are 201 priorities, too many for a label."""
    return "normal" if priority == 0 else "high" if priority > 0 else "low"


def _device_gauges(devices: tuple[DeviceFigures, ...]) -> Gauges:
    offered: defaultdict[tuple[str, ...], float] = defaultdict(float)
    used: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for row in devices:
        is_offered = row.state in _OFFERED or row.used_milli > 0
        offered[(row.kind,)] += row.devices if is_offered else 0
        used[(row.kind,)] += row.used_milli / WHOLE_DEVICE_MILLI
    return {
        names.DEVICES: {(row.kind, row.state): row.devices for row in devices},
        names.DEVICES_OFFERED: offered,
        names.DEVICES_USED: used,
    }
