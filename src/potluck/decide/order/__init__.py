"""Order policies, by name. docs/policies.md shows how to write one's own."""

from collections.abc import Callable

from potluck.decide.order.interface import Order
from potluck.decide.order.policies import (
    Fair,
    Fcfs,
    Priority,
    RoundRobin,
    Shortest,
)

ORDERS: dict[str, Callable[[], Order]] = {
    "fair": Fair,
    "fcfs": Fcfs,
    "priority": Priority,
    "round-robin": RoundRobin,
    "shortest": Shortest,
}
