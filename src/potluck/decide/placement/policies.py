"""The simple placement policies. Each also ranks the devices within a node."""

from potluck.decide.placement.interface import Placement, PlacementChoice


class Spread(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """The node with the largest free part, relative to its size; there, unused devices."""
        room = choice.room
        part = sum(room.milli) / len(room.milli) + 1000 * room.cores / room.node.cores
        return -part - sum(room.milli[each.position] for each in choice.taken) / 1e6


class FirstFit(Placement):
    looks_at = 1

    def score(self, choice: PlacementChoice) -> float:
        """Within the node, devices that are already in use."""
        return sum(choice.room.milli[each.position] for each in choice.taken)


_MOST_MILLI = 1e6


class Cheapest(Placement):
    def score(self, choice: PlacementChoice) -> float:
        price = sum(each.price * each.milli for each in choice.taken)
        return price + min(1.0, sum(choice.room.milli) / _MOST_MILLI)


class BestFit(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """The node with the least left over; there, the device with the least left over."""
        room, taken = choice.room, choice.taken
        free = sum(room.milli) - sum(each.milli for each in taken)
        left = sum(room.milli[each.position] - each.milli for each in taken)
        return free + 1000 * (room.cores - choice.want.cores) / room.node.cores + left / 1e6


class Pack(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """The fullest node, so that whole nodes stay free; there, devices already in use."""
        milli = choice.room.milli
        return sum(milli) + sum(milli[each.position] for each in choice.taken) / 1e6
