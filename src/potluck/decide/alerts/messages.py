"""Which messages are due: grouped by alert, without silenced ones, and not in quiet hours."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from potluck.decide.alerts.transitions import Alert
from potluck.model.alert import ALERTS, AlertName, AlertSeverity, AlertState, runbook_anchor

# Subjects that one message lists.
_MOST_LINES = 20


class MessageKind(StrEnum):
    FIRING = "firing"
    REPEATED = "repeated"  # it still fires
    RESOLVED = "resolved"


class Silence(Struct, frozen=True):
    """Matching alerts are listed, but not sent."""

    name: AlertName | None  # None: every alert
    subject: str | None  # a node, a device, an instance; None: every one
    until: datetime


class MessageRules(Struct, frozen=True):
    group: timedelta
    repeat: timedelta
    is_quiet: bool  # in quiet hours only critical alerts are told
    runbook_url: str  # of the page with a section for each alert


class AlertMessage(Struct, frozen=True):
    """One message about all alerts of one name that changed together."""

    name: AlertName
    kind: MessageKind
    title: str
    body: str
    alerts: tuple[Alert, ...]


def compose_messages(
    alerts: Sequence[Alert], silences: Sequence[Silence], rules: MessageRules, now: datetime
) -> list[AlertMessage]:
    """`alerts` are the firing ones, and those that were resolved lately."""
    audible = [
        alert
        for alert in alerts
        if not is_silenced(alert, silences, now)
        and (not rules.is_quiet or ALERTS[alert.name].severity is AlertSeverity.CRITICAL)
    ]
    messages = []
    for name in AlertName:
        named = [alert for alert in audible if alert.name is name]
        messages += [*_firing(named, rules, now), *_resolved(named, rules, now)]
    return messages


def is_silenced(alert: Alert, silences: Iterable[Silence], now: datetime) -> bool:
    subjects = (None, alert.subject, alert.node_id)
    return any(
        silence.until > now and silence.name in (None, alert.name) and silence.subject in subjects
        for silence in silences
    )


def compose_one(alert: Alert, kind: MessageKind, runbook_url: str) -> AlertMessage:
    """About one alert, immediately."""
    return _message(kind, [alert], runbook_url)


def _firing(alerts: list[Alert], rules: MessageRules, now: datetime) -> list[AlertMessage]:
    """New ones wait for each other; whatever is due takes the others along."""
    firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
    new = [alert for alert in firing if alert.notified_at is None]
    known = [alert for alert in firing if alert.notified_at is not None]
    repeat_before = now - rules.repeat
    is_due = any(alert.fired_at and alert.fired_at <= now - rules.group for alert in new)
    is_due_again = any(alert.notified_at and alert.notified_at <= repeat_before for alert in known)
    groups = {
        MessageKind.FIRING: new if is_due else [],
        MessageKind.REPEATED: known if is_due_again else [],
    }
    return [_message(kind, group, rules.runbook_url) for kind, group in groups.items() if group]


def _resolved(alerts: list[Alert], rules: MessageRules, now: datetime) -> list[AlertMessage]:
    """Of those whose beginning was sent."""
    resolved = [
        alert
        for alert in alerts
        if alert.state is AlertState.RESOLVED
        and alert.notified_at
        and not alert.resolve_notified_at
    ]
    due = any(each.resolved_at and each.resolved_at <= now - rules.group for each in resolved)
    return [_message(MessageKind.RESOLVED, resolved, rules.runbook_url)] if due else []


_PREFIXES = {
    MessageKind.FIRING: "",
    MessageKind.REPEATED: "Still: ",
    MessageKind.RESOLVED: "Resolved: ",
}


def _message(kind: MessageKind, alerts: list[Alert], runbook_url: str) -> AlertMessage:
    name = alerts[0].name
    facts = ALERTS[name]
    what = facts.one if len(alerts) == 1 else f"{len(alerts)} {facts.several}"
    lines = [f"- {alert.detail}" for alert in alerts[:_MOST_LINES]]
    if len(alerts) > _MOST_LINES:
        lines.append(f"- and {len(alerts) - _MOST_LINES} more")
    heading = [] if kind is MessageKind.RESOLVED else [facts.meaning]
    link = f"{name} ({facts.severity}): {runbook_url}#{runbook_anchor(name)}"
    body = "\n".join([*heading, *lines, link])
    return AlertMessage(name, kind, f"Potluck: {_PREFIXES[kind]}{what}", body, tuple(alerts))
