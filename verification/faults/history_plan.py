"""The size and kind of a history."""

from msgspec import Struct

_EVERY = 16


class HistoryPlan(Struct, frozen=True):
    """The parameters that all seeds share."""

    nodes: int = 5
    accounts: int = 3
    instances: int = 2
    steps: int = 300  # transactions with faults
    is_repaired: bool = True  # after them, and then every task must end


def has_large_tasks(seed: int) -> bool:
    """In every sixteenth history some tasks need a whole node, and must not starve.

    Nodes then offer their CPU besides their GPUs.
    """
    return seed % _EVERY == _EVERY - 1
