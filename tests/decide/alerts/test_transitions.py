"""Pending, then firing, then resolved: as long as the condition holds, and once each."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from potluck.decide.alerts.conditions import Condition
from potluck.decide.alerts.transitions import Alert, advance
from potluck.model.alert import ALERTS, AlertName, AlertState

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
NODE = Condition(AlertName.NODE_LOST, "node_1", "attic is silent.")
ALL = set(AlertName)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


class History:
    """Steps through time, as a database would keep the alerts."""

    def __init__(self, **holds: float) -> None:
        self.alerts: dict[int, Alert] = {}
        self._holds = {AlertName(name): seconds for name, seconds in holds.items()}

    def step(
        self, seconds: float, *conditions: Condition, watched: set[AlertName] = ALL
    ) -> list[AlertState]:
        """The states of alerts that changed."""
        active = [alert for alert in self.alerts.values() if alert.state is not AlertState.RESOLVED]
        step = advance(active, conditions, watched, self._holds, after(seconds))
        for alert in step.dropped:
            assert alert.id is not None
            del self.alerts[alert.id]
        for alert in step.changed:
            number = len(self.alerts) + 1 if alert.id is None else alert.id
            self.alerts[number] = replace(alert, id=number)
        return [alert.state for alert in step.turned]


def test_an_alert_fires_once_after_its_duration() -> None:
    history = History(NodeLost=300)
    assert history.step(0, NODE) == []
    assert history.step(299, NODE) == []
    assert history.step(300, NODE) == [AlertState.FIRING]
    assert history.step(301, NODE) == []
    assert history.alerts[1].began_at == NOW and history.alerts[1].fired_at == after(300)


def test_the_detail_is_of_the_last_time() -> None:
    """A repeated message says how long it has lasted, and so does the one about its end."""
    history = History(NodeLost=300)
    for seconds, state in ((0, "pending"), (200, "pending"), (300, "firing"), (900, "firing")):
        history.step(seconds, replace(NODE, detail=f"attic is silent for {seconds} s."))
        assert history.alerts[1].detail == f"attic is silent for {seconds} s."
        assert history.alerts[1].state == state
    assert history.step(910) == [AlertState.RESOLVED]
    assert history.alerts[1].detail == "attic is silent for 900 s."


def test_without_a_duration_it_fires_at_once() -> None:
    assert History(NodeLost=0).step(0, NODE) == [AlertState.FIRING]


def test_a_condition_that_ends_too_soon_is_forgotten() -> None:
    history = History(NodeLost=300)
    history.step(0, NODE)
    assert history.step(299) == [] and history.alerts == {}
    assert history.step(300, NODE) == [], "it begins again"


def test_an_alert_resolves_when_its_condition_ends_and_later_fires_anew() -> None:
    history = History(NodeLost=0)
    history.step(0, NODE)
    assert history.step(10) == [AlertState.RESOLVED]
    assert history.step(20) == []
    assert history.step(30, NODE) == [AlertState.FIRING]
    assert [alert.state for alert in history.alerts.values()] == ["resolved", "firing"]


def test_subjects_are_apart() -> None:
    history, other = History(NodeLost=0), replace(NODE, subject="node_2")
    history.step(0, NODE)
    assert history.step(1, NODE, other) == [AlertState.FIRING]
    assert history.step(2, other) == [AlertState.RESOLVED]
    assert [alert.state for alert in history.alerts.values()] == ["resolved", "firing"]


def test_unobserved_conditions_keep_their_alerts() -> None:
    """A new leader has not checked everything yet."""
    history = History(NodeLost=0)
    history.step(0, NODE)
    assert history.step(10, watched=ALL - {AlertName.NODE_LOST}) == []
    assert history.alerts[1].state is AlertState.FIRING


def test_every_alert_has_its_facts() -> None:
    assert list(ALERTS) == list(AlertName)
    for facts in ALERTS.values():
        assert facts.meaning.endswith(".") and facts.for_seconds >= 0
