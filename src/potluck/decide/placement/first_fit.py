"""The first node in the fixed order that would do: quick, and fills one node after the other."""

from potluck.decide.placement.interface import Choice, Placement


class FirstFit(Placement):
    looks_at = 1

    def score(self, choice: Choice) -> float:
        """Within the node: what is in use already."""
        return sum(choice.room.milli[each.position] for each in choice.taken)
