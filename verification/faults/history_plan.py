"""How large a history is, and of which kind."""

from msgspec import Struct

_EVERY = 16


class HistoryPlan(Struct, frozen=True):
    """What is the same for all seeds."""

    nodes: int = 5
    accounts: int = 3
    instances: int = 2
    steps: int = 300  # transactions with faults
    is_repaired: bool = True  # after them, and then every task must end


def has_large_tasks(seed: int) -> bool:
    """In every sixteenth history some tasks want a whole node, and must not starve among others.

    Nodes then offer their CPU beside their GPUs.
    """
    return seed % _EVERY == _EVERY - 1
