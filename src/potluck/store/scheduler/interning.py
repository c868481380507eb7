"""What tasks ask for, decoded once: equal bytes are the same value, in memory and in comparisons.

A million tasks of a few kinds cost a few values. Memory is bounded: when there are too many kinds
all are forgotten, and decoded again as they come.
"""

from typing import TypeVar

from potluck.model.task import Limits, Requirements
from potluck.wire import codec

_MOST_SHAPES = 100_000

T = TypeVar("T")


class Shapes:
    def __init__(self) -> None:
        self._requirements: dict[bytes, Requirements] = {}
        self._limits: dict[bytes, Limits] = {}

    def requirements(self, encoded: bytes) -> Requirements:
        return self._requirements.get(encoded) or _add(self._requirements, encoded, Requirements)

    def limits(self, encoded: bytes) -> Limits:
        return self._limits.get(encoded) or _add(self._limits, encoded, Limits)


def _add(known: dict[bytes, T], encoded: bytes, kind: type[T]) -> T:
    if len(known) >= _MOST_SHAPES:
        known.clear()
    known[encoded] = codec.decode_json(encoded, kind)
    return known[encoded]
