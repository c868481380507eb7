"""Decodes requirements and limits once: equal bytes give the same object.

A million tasks of a few kinds need only a few objects. Memory is bounded: with too many kinds, all
are dropped and decoded again.
"""

from typing import TypeVar

from potluck.model.task import Limits, Requirements
from potluck.wire import codec

_MAX_VALUES = 100_000

T = TypeVar("T")


class Interner:
    def __init__(self) -> None:
        self._requirements: dict[bytes, Requirements] = {}
        self._limits: dict[bytes, Limits] = {}

    def requirements(self, encoded: bytes) -> Requirements:
        return self._requirements.get(encoded) or _add(self._requirements, encoded, Requirements)

    def limits(self, encoded: bytes) -> Limits:
        return self._limits.get(encoded) or _add(self._limits, encoded, Limits)


def _add(cache: dict[bytes, T], encoded: bytes, value_type: type[T]) -> T:
    if len(cache) >= _MAX_VALUES:
        cache.clear()
    cache[encoded] = codec.decode_stored(encoded, value_type)
    return cache[encoded]
