"""Changes alerts according to the conditions that hold, and stores the messages that are due.

All in one transaction, one instance at a time: so the next evaluation neither loses nor repeats a
message, whichever instance makes it.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from potluck.decide.alerts.conditions import Condition
from potluck.decide.alerts.messages import AlertMessage, MessageKind, MessageRules, compose_messages
from potluck.decide.alerts.transitions import Alert, AlertStep, advance
from potluck.model.alert import RUNBOOK_PATH, AlertName, AlertState
from potluck.model.event import EventKind
from potluck.model.hours import is_open, parse_hours
from potluck.model.ids import NodeId
from potluck.server import topics
from potluck.server.flow.notify.notify import record_events
from potluck.server.services import Services
from potluck.store.alerts import alert_messages, alerts
from potluck.store.alerts.alert_messages import NewMessage
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

# The events of the owner when an alert fires and is resolved. A sick device is told by its node.
_OWNER_EVENTS = {
    AlertName.NODE_LOST: (EventKind.NODE_LOST, EventKind.NODE_RETURNED),
    AlertName.DEVICE_HOT: (EventKind.DEVICE_HOT, EventKind.DEVICE_COOL),
}


async def evaluate(
    services: Services,
    conditions: Sequence[Condition],
    watched: Collection[AlertName],
    leadership: Leadership | None = None,
) -> None:
    """Within the term of this leadership, if it is given."""
    settings = services.settings
    async with services.database.transaction() as connection:
        now = await alerts.lock(connection)
        if leadership is not None and not await leader.is_current(connection, leadership):
            return
        before = await alerts.list_open(connection)
        active = [alert for alert in before if alert.state is not AlertState.RESOLVED]
        step = advance(active, conditions, watched, settings.alert_for_seconds, now)
        await alerts.store_step(connection, step)
        has_events = await _tell_owners(connection, step)
        messages = await _store_messages(services, connection, now)
    _log(step)
    if messages:
        await services.live.wake(topics.ALERTS)
    if has_events:
        await services.live.wake(topics.OUTBOX)


async def _store_messages(
    services: Services, connection: Connection, now: datetime
) -> list[AlertMessage]:
    """For each destination. Alerts count as told where there is none, too."""
    silences = alerts.as_silences(await alerts.list_silences(connection))
    rules = message_rules(services, now)
    messages = compose_messages(await alerts.list_open(connection), silences, rules, now)
    for message in messages:
        is_resolved = message.kind is MessageKind.RESOLVED
        copies = [
            NewMessage(name, message.title, message.body, is_resolved)
            for name in services.alert_destinations.names
        ]
        await alert_messages.add(connection, copies)
        await alerts.mark_notified(connection, message.alerts, now)
    return messages


def message_rules(services: Services, now: datetime) -> MessageRules:
    settings = services.settings
    return MessageRules(
        timedelta(seconds=settings.alert_group_seconds),
        timedelta(seconds=settings.alert_repeat_seconds),
        _is_quiet(settings.alert_quiet_hours, now),
        runbook_url(services),
    )


def runbook_url(services: Services) -> str:
    """The page of this server; docs/alerts.md is the same."""
    return services.origins[0] + RUNBOOK_PATH


def _is_quiet(hours: str, now: datetime) -> bool:
    local = now.astimezone(UTC).astimezone()  # of the server
    return bool(hours.strip()) and is_open(parse_hours(hours), local)


async def _tell_owners(connection: Connection, step: AlertStep) -> bool:
    """A node that left, or was given up, has not returned."""
    turned = [alert for alert in step.turned if alert.name in _OWNER_EVENTS]
    ended = [alert for alert in turned if alert.state is AlertState.RESOLVED]
    node_ids = [alert.node_id for alert in ended if alert.node_id is not None]
    online: set[NodeId] = await alerts.list_online(connection, node_ids) if node_ids else set()
    events = [_event(alert) for alert in turned if alert not in ended or alert.node_id in online]
    announced = [event for event in events if event is not None]
    await record_events(connection, *announced)
    return bool(announced)


def _event(alert: Alert) -> Event | None:
    if alert.account_id is None:
        return None
    kind = _OWNER_EVENTS[alert.name][alert.state is AlertState.RESOLVED]
    data = {"detail": alert.detail}
    if alert.subject != alert.node_id:
        data["device_id"] = alert.subject
    return Event(alert.account_id, kind, node_id=alert.node_id, data=data)


def _log(step: AlertStep) -> None:
    for alert in step.turned:
        if alert.state is AlertState.FIRING:
            log.warning("alert fires", alert=alert.name, subject=alert.subject, detail=alert.detail)
        else:
            log.info("alert resolved", alert=alert.name, subject=alert.subject)
