"""Exponential backoff: doubling, bounded, with full jitter."""

from msgspec import Struct


class BackOff(Struct, frozen=True):
    """Up to `first_seconds` after one try, twice that after two, up to `longest_seconds`."""

    first_seconds: float
    longest_seconds: float

    def seconds(self, tries: int, jitter: float) -> float:
        """`jitter` is a random number from 0 to 1 that the caller draws, so that clients spread."""
        doublings = min(max(0, tries - 1), 64)
        return min(self.longest_seconds, self.first_seconds * 2.0**doublings) * jitter
