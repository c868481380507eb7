"""Order policies, by name. docs/policies.md shows how to write one's own."""

from collections.abc import Callable

from potluck.decide.order.fair_share import Fair
from potluck.decide.order.fcfs import Fcfs
from potluck.decide.order.interface import Order
from potluck.decide.order.priority import Priority
from potluck.decide.order.round_robin import RoundRobin
from potluck.decide.order.shortest_first import Shortest

ORDERS: dict[str, Callable[[], Order]] = {
    "fair": Fair,
    "fcfs": Fcfs,
    "priority": Priority,
    "round-robin": RoundRobin,
    "shortest": Shortest,
}
