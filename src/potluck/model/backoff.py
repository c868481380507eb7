"""How long to wait before the next try: doubling, bounded, with full jitter."""

from msgspec import Struct


class BackOff(Struct, frozen=True):
    """From nothing up to `first_seconds` after one try, twice that after two, up to the longest."""

    first_seconds: float
    longest_seconds: float

    def seconds(self, tries: int, jitter: float) -> float:
        """`jitter` is a number from 0 to 1 that the caller drew, so that nobody comes in step."""
        doublings = min(max(0, tries - 1), 64)
        return min(self.longest_seconds, self.first_seconds * 2.0**doublings) * jitter
