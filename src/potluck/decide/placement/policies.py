"""The fullest node that would do, so that whole nodes stay free for large tasks."""

from potluck.decide.placement.interface import Placement, PlacementChoice


class Spread(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """By the part of the node that is free, not by its size; within it: what is not in use."""
        room = choice.room
        part = sum(room.milli) / len(room.milli) + 1000 * room.cores / room.node.cores
        return -part - sum(room.milli[each.position] for each in choice.taken) / 1e6


class FirstFit(Placement):
    looks_at = 1

    def score(self, choice: PlacementChoice) -> float:
        """Within the node: what is in use already."""
        return sum(choice.room.milli[each.position] for each in choice.taken)


_MOST_MILLI = 1e6


class Cheapest(Placement):
    def score(self, choice: PlacementChoice) -> float:
        price = sum(each.price * each.milli for each in choice.taken)
        return price + min(1.0, sum(choice.room.milli) / _MOST_MILLI)


class BestFit(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """Within the node: the device of which the least is left."""
        room, taken = choice.room, choice.taken
        free = sum(room.milli) - sum(each.milli for each in taken)
        left = sum(room.milli[each.position] - each.milli for each in taken)
        return free + 1000 * (room.cores - choice.want.cores) / room.node.cores + left / 1e6


class Pack(Placement):
    def score(self, choice: PlacementChoice) -> float:
        """Within the node: what is in use already."""
        milli = choice.room.milli
        return sum(milli) + sum(milli[each.position] for each in choice.taken) / 1e6
