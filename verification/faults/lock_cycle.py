"""Finds deadlocks among sessions that block one another."""

from collections.abc import Mapping, Sequence


def find_cycle(pid: int, blockers: Mapping[int, Sequence[int]]) -> set[int]:
    """The sessions in a deadlock with this one; empty if there is none."""
    return {other for other in _ahead(pid, blockers) if pid in _ahead(other, blockers)}


def _ahead(pid: int, blockers: Mapping[int, Sequence[int]]) -> set[int]:
    reached: set[int] = set()
    ahead = list(blockers.get(pid, ()))
    while ahead:
        blocker = ahead.pop()
        if blocker not in reached:
            reached.add(blocker)
            ahead += blockers.get(blocker, ())
    return reached
