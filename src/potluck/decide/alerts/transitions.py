"""How alerts change: pending while a condition is new, then firing, then resolved."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.alerts.conditions import Condition
from potluck.model.alert import ALERTS, AlertName, AlertState
from potluck.model.ids import AccountId, NodeId


class Alert(Struct, frozen=True):
    name: AlertName
    subject: str
    state: AlertState
    detail: str  # a sentence, as the condition was last seen
    began_at: datetime  # when its condition was first seen
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    notified_at: datetime | None = None  # the last message that it fires
    resolve_notified_at: datetime | None = None
    account_id: AccountId | None = None
    node_id: NodeId | None = None
    id: int | None = None  # None until it is stored


class AlertStep(Struct, frozen=True):
    changed: tuple[Alert, ...]  # to store
    turned: tuple[Alert, ...]  # of these: those that have just fired or been resolved
    dropped: tuple[Alert, ...]  # pending ones whose condition has ended


def hold_seconds(name: AlertName, overrides: Mapping[AlertName, float]) -> float:
    return overrides.get(name, ALERTS[name].for_seconds)


def advance(
    active: Sequence[Alert],
    conditions: Sequence[Condition],
    watched: Collection[AlertName],
    overrides: Mapping[AlertName, float],
    now: datetime,
) -> AlertStep:
    """Only alerts whose names are in `watched` change: of the others nothing was observed."""
    known = {(alert.name, alert.subject): alert for alert in active}
    present = {(each.name, each.subject): each for each in conditions if each.name in watched}
    holds = {name: timedelta(seconds=hold_seconds(name, overrides)) for name in watched}
    changed = [
        changed
        for key, condition in present.items()
        if (changed := _seen(known.get(key), condition, holds[condition.name], now)) is not None
    ]
    gone = [alert for key, alert in known.items() if alert.name in watched and key not in present]
    resolved = [
        replace(alert, state=AlertState.RESOLVED, resolved_at=now)
        for alert in gone
        if alert.state is AlertState.FIRING
    ]
    fired = [
        alert for alert in changed if alert.state is AlertState.FIRING and alert.fired_at == now
    ]
    dropped = [alert for alert in gone if alert.state is AlertState.PENDING]
    return AlertStep((*changed, *resolved), (*fired, *resolved), tuple(dropped))


def _seen(
    alert: Alert | None, condition: Condition, hold: timedelta, now: datetime
) -> Alert | None:
    """The alert of a condition that holds, if it differs from the stored one."""
    if alert is None:
        alert = Alert(
            condition.name,
            condition.subject,
            AlertState.PENDING,
            condition.detail,
            now,
            account_id=condition.account_id,
            node_id=condition.node_id,
        )
    if alert.state is AlertState.PENDING and now - alert.began_at >= hold:
        return replace(alert, state=AlertState.FIRING, fired_at=now, detail=condition.detail)
    is_same = alert.id is not None and alert.detail == condition.detail
    return None if is_same else replace(alert, detail=condition.detail)
