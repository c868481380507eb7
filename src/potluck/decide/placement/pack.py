"""The fullest node that would do, so that whole nodes stay free for large tasks."""

from potluck.decide.placement.interface import Choice, Placement


class Pack(Placement):
    def score(self, choice: Choice) -> float:
        """Within the node: what is in use already."""
        milli = choice.room.milli
        return sum(milli) + sum(milli[each.position] for each in choice.taken) / 1e6
