"""Where the least is left over, of devices and of cores."""

from potluck.decide.placement.interface import Choice, Placement


class BestFit(Placement):
    def score(self, choice: Choice) -> float:
        """Within the node: the device of which the least is left."""
        room, taken = choice.room, choice.taken
        free = sum(room.milli) - sum(each.milli for each in taken)
        left = sum(room.milli[each.position] - each.milli for each in taken)
        return free + 1000 * (room.cores - choice.want.cores) / room.node.cores + left / 1e6
