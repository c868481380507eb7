"""Deliveries: events on their way to webhooks, claimed by whoever sends them, and what came of
that.
"""

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
_BEHIND_ALL = "delivery_~"


class Lagging(Struct, frozen=True):
    """A webhook for which there may be something new."""

    webhook_id: str
    account_id: AccountId
    kinds: frozenset[EventKind]
    task_id: TaskId | None
    place: int

    def wants(self, kind: EventKind, task_id: TaskId | None) -> bool:
        is_kind = not self.kinds or kind in self.kinds
        return is_kind and self.task_id in (None, task_id)


class Claimed(Struct, frozen=True):
    """A delivery that is ours to send until the claim is over. The try's number is the fence."""

    id: str
    webhook_id: str
    account_id: AccountId
    number: int
    first_at: datetime
    sealed_destination: bytes
    old_secret_until: datetime | None
    event: EventView


class Receiver(Struct, frozen=True):
    """What is known of the webhook of a claimed delivery."""

    account_id: AccountId
    name: str
    failures: int
    failing_since: datetime | None
    succeeded_at: datetime | None


async def moment(connection: Connection) -> datetime:
    """The database's."""
    now: datetime = await connection.fetchval(_sql.moment)
    return now


async def is_any(connection: Connection) -> bool:
    """Whether there is anybody to deliver to."""
    found: bool = await connection.fetchval(_sql.is_any)
    return found


async def behind(connection: Connection, most_waiting: int, limit: int) -> list[Lagging]:
    """Locked until the transaction is over; those with more deliveries waiting are left out."""
    return [
        Lagging(
            row["id"],
            row["account_id"],
            frozenset(map(EventKind, row["kinds"])),
            row["task_id"],
            row["place"],
        )
        for row in await connection.fetch(_sql.behind, most_waiting, limit)
    ]


async def queue(connection: Connection, webhook: Lagging, limit: int, now: datetime) -> int:
    """Makes deliveries of the next events that it wants; how many events were looked at."""
    rows = await connection.fetch(_sql.events_behind, webhook.account_id, webhook.place, limit)
    wanted = [row for row in rows if webhook.wants(EventKind(row["kind"]), row["task_id"])]
    await connection.execute(
        _sql.add,
        [new_delivery_id() for _ in wanted],
        webhook.webhook_id,
        now,
        [row["id"] for row in wanted],
        [row["place"] for row in wanted],
        [_lane(row) for row in wanted],
    )
    if rows:
        await connection.execute(_sql.move_on, webhook.webhook_id, rows[-1]["place"])
    return len(rows)


def _lane(event: Any) -> str:
    """What of one lane comes in order: of a task, or of a node."""
    return event["task_id"] or event["node_id"] or f"event {event['id']}"


class Places(Struct, frozen=True):
    """How much may be sent at a time, and how much of that each account has already."""

    free: int
    of_webhook: int
    of_account: int
    taken: Mapping[AccountId, int] = {}


async def claim(
    connection: Connection, now: datetime, lasting: timedelta, places: Places
) -> list[Claimed]:
    """Those that others send count for their webhook too."""
    taken = places.taken
    rows = await connection.fetch(
        _sql.claim,
        now,
        lasting,
        places.of_webhook,
        places.free,
        list(taken),
        list(taken.values()),
        places.of_account,
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
            event_list.view(row),
        )
        for row in rows
    ]


async def lock_receiver(connection: Connection, claimed: Claimed) -> Receiver | None:
    """None if the delivery is not ours any more."""
    row = await connection.fetchrow(
        _sql.lock_claimed, claimed.id, claimed.number, claimed.webhook_id
    )
    if row is None:
        return None
    return Receiver(
        row["account_id"],
        row["name"],
        row["failures"],
        row["failing_since"],
        row["succeeded_at"],
    )


async def note(connection: Connection, claimed: Claimed, tried: TryView) -> None:
    await connection.execute(
        _sql.note, claimed.id, tried.number, tried.at, tried.seconds, tried.status, tried.detail
    )


async def finish(
    connection: Connection, claimed: Claimed, state: DeliveryState, now: datetime
) -> bool:
    """Whether it was still ours."""
    done = await connection.fetchval(_sql.finish, claimed.id, claimed.number, state, now)
    return done is not None


async def try_later(connection: Connection, claimed: Claimed, next_at: datetime) -> bool:
    """Whether it was still ours."""
    done = await connection.fetchval(_sql.try_later, claimed.id, claimed.number, next_at)
    return done is not None


async def put_back(connection: Connection, claimed: Claimed, next_at: datetime) -> None:
    """Nothing was sent, and the try does not count."""
    await connection.execute(_sql.put_back, claimed.id, claimed.number, next_at)


async def newest(
    connection: Connection, webhook_id: str, before: str | None, limit: int
) -> list[DeliveryView]:
    rows = await connection.fetch(_sql.newest, webhook_id, before or _BEHIND_ALL, limit)
    tries = await _tries(connection, [row["id"] for row in rows])
    return [_view(row, tries.get(row["id"], [])) for row in rows]


async def get(connection: Connection, webhook_id: str, delivery_id: str) -> DeliveryView | None:
    row = await connection.fetchrow(_sql.get, delivery_id, webhook_id)
    if row is None:
        return None
    return _view(row, (await _tries(connection, [delivery_id])).get(delivery_id, []))


async def hurry(
    connection: Connection, webhook_id: str, delivery_id: str, now: datetime
) -> str | None:
    """The delivery of the same event that still waits, if there is one: it is due now."""
    found: str | None = await connection.fetchval(_sql.hurry, webhook_id, delivery_id, now)
    return found


async def hurry_webhook(connection: Connection, webhook_id: str, now: datetime) -> None:
    """The next try is now, and not after the pause of one that fails."""
    await connection.execute(_sql.hurry_webhook, webhook_id, now)


async def again(
    connection: Connection, webhook_id: str, delivery_id: str, now: datetime, most_waiting: int
) -> str | None:
    """The same event once more; the id of its delivery, or None if too many wait already."""
    anew: str | None = await connection.fetchval(
        _sql.again, delivery_id, webhook_id, new_delivery_id(), now, most_waiting
    )
    return anew


async def forget(connection: Connection, over_for: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(_sql.forget, over_for, most)
    return gone


async def _tries(connection: Connection, ids: Collection[str]) -> dict[str, list[TryView]]:
    found: dict[str, list[TryView]] = {}
    for row in await connection.fetch(_sql.tries, list(ids), _SHOWN_TRIES):
        tried = TryView(row["number"], row["at"], row["seconds"], row["status"], row["detail"])
        found.setdefault(row["delivery_id"], []).append(tried)
    return found


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
