"""Order policies by name. docs/policies.md shows how to write your own."""

from collections.abc import Callable

from potluck.decide.order.interface import OrderPolicy
from potluck.decide.order.policies import Fair, Fcfs, Priority, RoundRobin, Shortest

ORDERS: dict[str, Callable[[], OrderPolicy]] = {
    "fair": Fair,
    "fcfs": Fcfs,
    "priority": Priority,
    "round-robin": RoundRobin,
    "shortest": Shortest,
}
