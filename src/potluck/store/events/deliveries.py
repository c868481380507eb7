"""Deliveries of events to webhooks: claimed by the sending instance, with their results."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.webhook import DeliveryState
from potluck.store.database import Connection
from potluck.store.events import event_list
from potluck.store.new_ids import new_delivery_id
from potluck.store.sql_files import load
from potluck.wire.events import EventView
from potluck.wire.webhooks import DeliveryView, TryView

_sql = load("deliveries")
_SHOWN_TRIES = 10
_AFTER_ALL = "delivery_~"


class LaggingWebhook(Struct, frozen=True):
    """A webhook that may have new events."""

    webhook_id: str
    account_id: AccountId
    kinds: frozenset[EventKind]
    task_id: TaskId | None
    place: int

    def accepts(self, kind: EventKind, task_id: TaskId | None) -> bool:
        is_kind = not self.kinds or kind in self.kinds
        return is_kind and self.task_id in (None, task_id)


class Claimed(Struct, frozen=True):
    """A delivery that this instance sends until the claim expires, fenced by the try's number."""

    id: str
    webhook_id: str
    account_id: AccountId
    number: int
    first_at: datetime
    sealed_destination: bytes
    old_secret_until: datetime | None
    event: EventView


class Receiver(Struct, frozen=True):
    """The webhook of a claimed delivery."""

    account_id: AccountId
    name: str
    failures: int
    failing_since: datetime | None
    succeeded_at: datetime | None


async def read_clock(connection: Connection) -> datetime:
    """The database's clock."""
    now: datetime = await connection.fetchval(*_sql.moment())
    return now


async def has_webhooks(connection: Connection) -> bool:
    is_any: bool = await connection.fetchval(*_sql.is_any())
    return is_any


async def lock_lagging(
    connection: Connection, most_waiting: int, limit: int
) -> list[LaggingWebhook]:
    """Locks lagging webhooks; skips those with more queued deliveries."""
    return [
        LaggingWebhook(
            row["id"],
            row["account_id"],
            frozenset(map(EventKind, row["kinds"])),
            row["task_id"],
            row["place"],
        )
        for row in await connection.fetch(
            *_sql.behind(
                newest_place=await event_list.read_head(connection),
                max_waiting=most_waiting,
                limit=limit,
            )
        )
    ]


async def queue_events(
    connection: Connection, webhook: LaggingWebhook, limit: int, now: datetime
) -> int:
    """Creates deliveries for the next matching events; returns the number of events read."""
    newest_place = await event_list.read_head(connection)
    rows = await connection.fetch(
        *_sql.events_behind(webhook=webhook, newest_place=newest_place, limit=limit)
    )
    accepted = [row for row in rows if webhook.accepts(EventKind(row["kind"]), row["task_id"])]
    await connection.execute(
        *_sql.add(
            delivery_ids=[new_delivery_id() for _ in accepted],
            webhook_id=webhook.webhook_id,
            now=now,
            event_ids=[row["id"] for row in accepted],
            places=[row["place"] for row in accepted],
            lanes=[_lane(row) for row in accepted],
        )
    )
    if rows:
        await connection.execute(
            *_sql.move_on(webhook_id=webhook.webhook_id, place=rows[-1]["place"])
        )
    return len(rows)


def _lane(event: Any) -> str:
    """Deliveries of one lane are sent in order: per task, or per node."""
    return event["task_id"] or event["node_id"] or f"event {event['id']}"


class DeliverySlots(Struct, frozen=True):
    """How many may be sent at a time, and how many each account uses already."""

    free: int
    of_webhook: int
    of_account: int
    taken: Mapping[AccountId, int] = {}


async def claim(
    connection: Connection, now: datetime, duration: timedelta, slots: DeliverySlots
) -> list[Claimed]:
    """Deliveries in progress on other instances count for their webhook too."""
    taken = slots.taken
    rows = await connection.fetch(
        *_sql.claim(
            now=now,
            claim_duration=duration,
            places=slots,
            account_ids=list(taken),
            taken_places=list(taken.values()),
        )
    )
    return [
        Claimed(
            row["delivery_id"],
            row["webhook_id"],
            row["account_id"],
            row["tries"],
            row["first_tried_at"],
            row["sealed_destination"],
            row["old_secret_until"],
            event_list.event_view(row),
        )
        for row in rows
    ]


async def lock_receiver(connection: Connection, claimed: Claimed) -> Receiver | None:
    """None if the claim is no longer ours."""
    row = await connection.fetchrow(*_sql.lock_claimed(delivery=claimed))
    if row is None:
        return None
    return Receiver(
        row["account_id"], row["name"], row["failures"], row["failing_since"], row["succeeded_at"]
    )


async def record_try(connection: Connection, claimed: Claimed, attempt: TryView) -> None:
    await connection.execute(*_sql.note(delivery_id=claimed.id, delivery_try=attempt))


async def finish(
    connection: Connection, claimed: Claimed, state: DeliveryState, now: datetime
) -> bool:
    """Whether the claim was still ours."""
    done = await connection.fetchval(*_sql.finish(delivery=claimed, state=state, now=now))
    return done is not None


async def schedule_retry(connection: Connection, claimed: Claimed, next_at: datetime) -> bool:
    """Whether the claim was still ours."""
    done = await connection.fetchval(*_sql.try_later(delivery=claimed, next_at=next_at))
    return done is not None


async def put_back(connection: Connection, claimed: Claimed, next_at: datetime) -> None:
    """Nothing was sent, and the try does not count."""
    await connection.execute(*_sql.put_back(delivery=claimed, next_at=next_at))


async def newest(
    connection: Connection, webhook_id: str, before: str | None, limit: int
) -> list[DeliveryView]:
    rows = await connection.fetch(
        *_sql.newest(webhook_id=webhook_id, before_id=before or _AFTER_ALL, limit=limit)
    )
    tries = await _tries(connection, [row["id"] for row in rows])
    return [_view(row, tries.get(row["id"], [])) for row in rows]


async def get(connection: Connection, webhook_id: str, delivery_id: str) -> DeliveryView | None:
    row = await connection.fetchrow(*_sql.get(delivery_id=delivery_id, webhook_id=webhook_id))
    if row is None:
        return None
    return _view(row, (await _tries(connection, [delivery_id])).get(delivery_id, []))


async def make_due(
    connection: Connection, webhook_id: str, delivery_id: str, now: datetime
) -> str | None:
    """Makes a waiting delivery of the same event due now; its id, if there is one."""
    queued_id: str | None = await connection.fetchval(
        *_sql.hurry(webhook_id=webhook_id, delivery_id=delivery_id, now=now)
    )
    return queued_id


async def make_webhook_due(connection: Connection, webhook_id: str, now: datetime) -> None:
    """Ends the webhook's back-off."""
    await connection.execute(*_sql.hurry_webhook(webhook_id=webhook_id, now=now))


async def redeliver(
    connection: Connection, webhook_id: str, delivery_id: str, now: datetime, most_waiting: int
) -> str | None:
    """Queues the same event again; returns the new id, or None if too many are queued."""
    new_id: str | None = await connection.fetchval(
        *_sql.again(
            delivery_id=delivery_id,
            webhook_id=webhook_id,
            new_delivery_id=new_delivery_id(),
            now=now,
            max_waiting=most_waiting,
        )
    )
    return new_id


async def delete_old(connection: Connection, over_for: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.forget(older_than=over_for, limit=most))
    return gone


async def _tries(connection: Connection, ids: Collection[str]) -> dict[str, list[TryView]]:
    tries: dict[str, list[TryView]] = {}
    for row in await connection.fetch(*_sql.tries(delivery_ids=list(ids), limit=_SHOWN_TRIES)):
        attempt = TryView(row["number"], row["at"], row["seconds"], row["status"], row["detail"])
        tries.setdefault(row["delivery_id"], []).append(attempt)
    return tries


def _view(row: Any, tries: Sequence[TryView]) -> DeliveryView:
    is_due = row["state"] == DeliveryState.PENDING and row["is_sent"]
    return DeliveryView(
        row["id"],
        event_list.event_id(row["event_number"], row["event_at"]),
        EventKind(row["kind"]),
        DeliveryState(row["state"]),
        row["created_at"],
        row["task_id"],
        row["tries"],
        list(tries),
        row["next_at"] if is_due else None,
        row["ended_at"],
    )
