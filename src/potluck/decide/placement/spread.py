"""The emptiest node that would do, so that tasks are in each other's way as little as can be."""

from potluck.decide.placement.interface import Choice, Placement


class Spread(Placement):
    def score(self, choice: Choice) -> float:
        """By the part of the node that is free, not by its size; within it: what is not in use."""
        room = choice.room
        part = sum(room.milli) / len(room.milli) + 1000 * room.cores / room.node.cores
        return -part - sum(room.milli[each.position] for each in choice.taken) / 1e6
