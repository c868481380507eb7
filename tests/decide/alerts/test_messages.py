"""One message for what happened together, none for what is silenced, and few at night."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from potluck.decide.alerts.messages import (
    AlertMessage,
    MessageKind,
    MessageRules,
    Silence,
    compose_messages,
)
from potluck.decide.alerts.transitions import Alert
from potluck.model.alert import AlertName, AlertState
from potluck.model.ids import NodeId

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
RULES = MessageRules(
    timedelta(seconds=10), timedelta(hours=4), False, "https://pool.example/runbook"
)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def lost(number: int, fired: float = 10, notified: float | None = None) -> Alert:
    node = NodeId(f"node_{number}")
    return Alert(
        AlertName.NODE_LOST,
        node,
        AlertState.FIRING,
        f"{node} is silent.",
        ago(fired + 300),
        ago(fired),
        notified_at=None if notified is None else ago(notified),
        node_id=node,
        id=number,
    )


def resolved(alert: Alert, seconds: float = 10) -> Alert:
    return replace(alert, state=AlertState.RESOLVED, resolved_at=ago(seconds))


def due(
    *alerts: Alert, silences: tuple[Silence, ...] = (), quiet: bool = False
) -> list[AlertMessage]:
    return compose_messages(alerts, silences, replace(RULES, is_quiet=quiet), NOW)


def test_twenty_nodes_lost_at_once_are_one_message() -> None:
    """Those that fired a moment later, too."""
    (message,) = due(*(lost(number, fired=10 if number == 1 else 1) for number in range(1, 21)))
    assert (message.kind, message.title) == (MessageKind.FIRING, "Potluck: 20 nodes lost")
    assert len(message.alerts) == 20 and "node_20 is silent." in message.body
    assert message.body.endswith("NodeLost (warning): https://pool.example/runbook#nodelost")


def test_a_message_does_not_grow_without_bounds() -> None:
    (message,) = due(*(lost(number) for number in range(1, 501)))
    assert "- and 480 more" in message.body and len(message.body) < 2_000
    assert len(message.alerts) == 500


def test_a_new_alert_waits_for_others() -> None:
    assert due(lost(1, fired=9)) == []


def test_another_kind_of_alert_is_another_message() -> None:
    disk = replace(lost(2), name=AlertName.DISK_LOW, subject="a:1")
    assert [message.title for message in due(lost(1), disk)] == [
        "Potluck: node lost",
        "Potluck: disk almost full",
    ]


def test_alerts_are_repeated_only_after_the_repeat_interval() -> None:
    assert due(lost(1, fired=9_000, notified=9_000)) == []
    (message,) = due(lost(1, fired=20_000, notified=14_400), lost(2, fired=9_000, notified=9_000))
    assert (message.kind, message.title) == (MessageKind.REPEATED, "Potluck: Still: 2 nodes lost")


def test_the_end_is_told_if_the_beginning_was() -> None:
    (message,) = due(
        resolved(lost(1, fired=99, notified=80)), resolved(lost(2, fired=99, notified=80), 1)
    )
    assert (message.kind, message.title) == (
        MessageKind.RESOLVED,
        "Potluck: Resolved: 2 nodes lost",
    )
    assert due(resolved(lost(1, fired=20))) == []
    told_alert = replace(resolved(lost(1, fired=99, notified=80)), resolve_notified_at=ago(1))
    assert due(told_alert) == []


def test_a_silence_covers_an_alert_a_subject_or_a_node_until_its_end() -> None:
    later = NOW + timedelta(hours=1)
    for silence in (
        Silence(None, None, later),
        Silence(AlertName.NODE_LOST, None, later),
        Silence(AlertName.NODE_LOST, "node_1", later),
        Silence(None, "node_1", later),
    ):
        assert due(lost(1), silences=(silence,)) == []
    for silence in (
        Silence(AlertName.DISK_LOW, None, later),
        Silence(AlertName.NODE_LOST, "node_2", later),
        Silence(None, None, NOW),
    ):
        assert len(due(lost(1), silences=(silence,))) == 1
    hot = replace(lost(1), name=AlertName.DEVICE_HOT, subject="device_9")
    assert due(hot, silences=(Silence(None, "node_1", later),)) == [], "a device of the node"


def test_quiet_hours_hold_back_alerts_that_are_not_critical() -> None:
    disk = replace(lost(2), name=AlertName.DISK_LOW, subject="a:1")
    (message,) = due(lost(1), disk, resolved(lost(3, fired=99, notified=80)), quiet=True)
    assert message.name is AlertName.DISK_LOW
    assert len(due(lost(1, fired=30_000))) == 1, "and in the morning it is told"
