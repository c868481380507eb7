"""The faults and their probabilities. Every choice comes from the seed."""

import random
from collections import Counter
from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class FaultOdds(Struct, frozen=True):
    """The probability of each fault per opportunity."""

    wake_lost: float = 0.2
    request_lost: float = 0.03
    answer_lost: float = 0.03
    request_twice: float = 0.05
    database_away: float = 0.01
    commit_unheard: float = 0.01  # committed, but the response is lost
    slow: float = 0.15  # a transaction begins late, with an outdated plan
    interleaved: float = 0.3  # others run between two statements of a transaction


_FACTORS = (0.0, 1.0, 1.0, 3.0)
NONE = FaultOdds(**dict.fromkeys(FaultOdds.__struct_fields__, 0.0))


class Chance:
    """Draws random values, and counts the faults."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.odds = self._draw_odds()
        self.happened: Counter[str] = Counter()

    def _draw_odds(self) -> FaultOdds:
        """Odds differ per history: some bugs show only if a fault is rare or frequent."""
        usual = msgspec.structs.asdict(FaultOdds())
        return FaultOdds(**{name: odds * self.one_of(_FACTORS) for name, odds in usual.items()})

    def strikes(self, fault: str) -> bool:
        odds: float = getattr(self.odds, fault)
        if odds <= 0 or self._random.random() >= odds:
            return False
        self.happened[fault] += 1
        return True

    def note(self, fault: str) -> None:
        self.happened[fault] += 1

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def seconds(self, least: float, most: float) -> float:
        return self._random.uniform(least, most)

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def one_of(self, choices: "list[T] | tuple[T, ...]") -> T:
        return self._random.choice(choices)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def heal(self) -> None:
        """No faults from now on."""
        self.odds = NONE
