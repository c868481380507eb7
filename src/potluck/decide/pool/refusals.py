"""Counts how many nodes refuse a task, by reason.

All nodes are counted with bitmaps where these decide; else a sample of about thirty nodes
represents the others, because this is called again and again for every waiting group.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from potluck.decide.pool.demand import Demand
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.pool.node_index import NodeIndex
from potluck.model.ids import AccountId

_MOST_LOOKS = 32


def count_refusals(demand: Demand, account_id: AccountId, pool: NodeIndex) -> Counter[Refusal]:
    if demand.min_reliability is not None:
        return _look_at(demand, account_id, pool, len(pool))
    profiles = pool.profiles
    found: Counter[Refusal] = Counter()
    for profile in profiles:
        devices = demand.devices(profile)
        if isinstance(devices, Refusal):
            found[devices] += profile.count
    suited = pool.suited(demand)
    count = suited.bit_count()
    if count <= _MOST_LOOKS or not _tell_all(demand, profiles):
        return found + _look_at(demand, account_id, pool.nodes(suited), count)
    devices_busy, devices_shared, nodes_busy = pool.busy(demand, account_id)
    found[Refusal.DEVICE_BUSY] += devices_busy.bit_count()
    found[Refusal.DEVICE_SHARED] += devices_shared.bit_count()
    found[Refusal.NODE_BUSY] += nodes_busy.bit_count()
    return +found


def _tell_all(demand: Demand, profiles: Sequence[NodeProfile]) -> bool:
    """Whether the bitmaps alone decide why a node refuses."""
    return (
        demand.needs.is_on_gpu
        and not demand.requirements.device_memory_bytes
        and demand.uses_all_gpus(profiles)
    )


def _look_at(
    demand: Demand, account_id: AccountId, nodes: Iterable[NodeCapacity], count: int
) -> Counter[Refusal]:
    """The refusals of a sample, scaled to all nodes."""
    every = 1 + max(0, count - 1) // _MOST_LOOKS
    answers = Counter(
        demand.refusal(capacity, account_id) for capacity in islice(nodes, 0, None, every)
    )
    looks = answers.total()
    found = {answer: number * count // looks for answer, number in answers.items()}
    if found:
        ((most, _),) = answers.most_common(1)
        found[most] += count - sum(found.values())
    return Counter({answer: number for answer, number in found.items() if answer is not None})
