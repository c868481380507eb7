"""The simple placement policies. Each also ranks the devices within a node."""

from potluck.decide.placement.interface import Placement, PlacementChoice


class Spread(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """The node with the largest free part, relative to its size; there, unused devices."""
        capacity = choice.capacity
        part = (
            sum(capacity.milli) / len(capacity.milli) + 1000 * capacity.cores / capacity.node.cores
        )
        return -part - sum(capacity.milli[each.position] for each in choice.taken) / 1e6


class FirstFit(Placement):
    looks_at = 1

    def score(self, choice: PlacementChoice) -> float:
        """Within the node, devices that are already in use."""
        return sum(choice.capacity.milli[each.position] for each in choice.taken)


_MOST_MILLI = 1e6


class Cheapest(Placement):
    def score(self, choice: PlacementChoice) -> float:
        price = sum(each.price * each.milli for each in choice.taken)
        return price + min(1.0, sum(choice.capacity.milli) / _MOST_MILLI)


class BestFit(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """The node with the least left over; there, the device with the least left over."""
        capacity, taken = choice.capacity, choice.taken
        free = sum(capacity.milli) - sum(each.milli for each in taken)
        left = sum(capacity.milli[each.position] - each.milli for each in taken)
        return (
            free + 1000 * (capacity.cores - choice.demand.cores) / capacity.node.cores + left / 1e6
        )


class Pack(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """The fullest node, so that whole nodes stay free; there, devices already in use."""
        milli = choice.capacity.milli
        return sum(milli) + sum(milli[each.position] for each in choice.taken) / 1e6
