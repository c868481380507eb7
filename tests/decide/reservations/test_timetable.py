"""What runs is kept in mind once, however often it is read."""

from potluck.decide.reservations.timetable import Timetable
from potluck.decide.types import RunningAttempt
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId


def _attempt(number: int) -> RunningAttempt:
    ids = (AttemptId(f"a{number}"), TaskId(f"t{number}"), AccountId("alice"), NodeId("n"))
    return RunningAttempt(*ids, (), 1, 0, 0, expected_end=1e6 + number)


def test_an_attempt_that_is_read_again_and_again_costs_no_more_memory() -> None:
    timetable = Timetable()
    for _ in range(100):
        for number in range(50):
            timetable.drop(AttemptId(f"a{number}"))
            timetable.put(_attempt(number))
    assert timetable.remembered <= 2 * 50 + 1000


def test_after_a_sweep_each_end_is_still_seen() -> None:
    timetable = Timetable()
    for _ in range(2000):
        timetable.put(_attempt(1))
    timetable.look(1e6 + 2)
    attempt = timetable.get(AttemptId("a1"))
    assert attempt is not None and attempt.expected_end > 1e6 + 2


def test_a_node_is_forgotten_with_the_last_that_ran_on_it() -> None:
    timetable = Timetable()
    timetable.put(_attempt(1))
    timetable.put(_attempt(2))
    timetable.drop(AttemptId("a1"))
    assert timetable.last_end(NodeId("n")) == 1e6 + 2
    timetable.drop(AttemptId("a2"))
    assert timetable.last_end(NodeId("n")) == 0 and not timetable._running
