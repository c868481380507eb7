"""What costs the least by the hour; of equal prices the fullest node."""

from potluck.decide.placement.interface import Choice, Placement

_MOST_MILLI = 1e6


class Cheapest(Placement):
    def score(self, choice: Choice) -> float:
        price = sum(each.price * each.milli for each in choice.taken)
        return price + min(1.0, sum(choice.room.milli) / _MOST_MILLI)
