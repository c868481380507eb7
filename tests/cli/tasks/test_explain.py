"""`potluck explain`: the reason first, then the place, the refusals, and what would help."""

import io
from datetime import UTC, datetime, timedelta

from potluck.cli.tasks.explain import _show
from potluck.cli.terminal.screen import Pane
from potluck.model.ids import TaskId
from potluck.model.task import TaskState
from potluck.wire.consumer import Explanation, RefusalCount

NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)


def shown(explanation: Explanation) -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    _show(Pane(stream), explanation, NOW)
    stream.seek(0)
    return stream.read().splitlines()


def test_all_known_facts_are_shown_in_order() -> None:
    explanation = Explanation(
        TaskId("task_1"),
        TaskState.QUEUED,
        "12 nodes have their devices in use.",
        nodes=1_234,
        refusals=[RefusalCount("device_busy", 12, "12 nodes have their devices in use.")],
        changes=["3 nodes would take it with a price ceiling of 0.40."],
        position=4_321,
        estimated_start=NOW + timedelta(minutes=5),
        basis="a similar task has recently started every 3 s",
    )
    assert shown(explanation) == [
        "12 nodes have their devices in use.",
        "It is number 4,321 in the queue."
        " It may start in 5 min: a similar task has recently started every 3 s.",
        "",
        "Of 1,234 nodes:",
        "  12 nodes have their devices in use.",
        "",
        "What would help:",
        "  3 nodes would take it with a price ceiling of 0.40.",
    ]


def test_an_explanation_of_a_running_task_is_one_safe_line() -> None:
    explanation = Explanation(
        TaskId("task_1"), TaskState.RUNNING, "It runs on lap\x1b[31mtop.", nodes=0
    )
    assert shown(explanation) == ["It runs on lap�[31mtop."]


def test_a_guess_that_is_past_is_any_moment() -> None:
    explanation = Explanation(
        TaskId("task_1"),
        TaskState.QUEUED,
        "Is in line.",
        nodes=1,
        position=1,
        estimated_start=NOW - timedelta(seconds=1),
    )
    assert shown(explanation) == [
        "Is in line.",
        "It is next in the queue. It may start at any moment.",
    ]
