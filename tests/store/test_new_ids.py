"""New ids sort in the order in which they were made."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from potluck.model.ids import first_id_at, is_id
from potluck.store.new_ids import clock_source, new_task_id, use_id_source

START = datetime(2026, 11, 18, 12, tzinfo=UTC)


def made_at(*milliseconds: float) -> list[str]:
    moments: Iterator[datetime] = (
        START + timedelta(milliseconds=millisecond) for millisecond in milliseconds
    )
    with use_id_source(clock_source(lambda: next(moments))):
        return [new_task_id() for _ in milliseconds]


def test_ids_of_one_millisecond_keep_their_order() -> None:
    ids = made_at(*[7.25] * 500)
    assert ids == sorted(set(ids))
    assert all(is_id(new_id, "task") for new_id in ids)
    assert ids[0] >= first_id_at("task", START + timedelta(milliseconds=7))
    assert ids[-1] < first_id_at("task", START + timedelta(milliseconds=8))


def test_a_clock_that_is_set_back_is_followed() -> None:
    later, earlier = made_at(60_000, 0)
    assert earlier < first_id_at("task", START + timedelta(milliseconds=1)) < later


def test_ids_of_the_machine_s_clock_keep_their_order() -> None:
    ids = [new_task_id() for _ in range(2_000)]
    assert ids == sorted(set(ids))
