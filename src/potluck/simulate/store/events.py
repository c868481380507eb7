"""Models of queries/events.sql and audit.sql."""

from datetime import datetime

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("events")
_audit = load("audit")


@models(_sql.append)
def append(
    data: Data,
    account_ids: list[str],
    task_ids: list[str | None],
    node_ids: list[str | None],
    kinds: list[str],
    told: list[bytes],
) -> list[Row]:
    columns = ("account_id", "task_id", "node_id", "kind", "data")
    for event in zip(account_ids, task_ids, node_ids, kinds, told, strict=True):
        data.events.insert(dict(zip(columns, event, strict=True)))
    return []


@models(_sql.place)
def place(data: Data, limit: int, told: int) -> list[Row]:
    (head,) = data.event_head.all()
    unplaced = sorted(data.events.of("unplaced", None), key=lambda row: row["id"])[:limit]
    first = head["place"] + 1
    changes = {"place": head["place"] + len(unplaced), "told": max(head["told"], told)}
    data.event_head.update(head, changes)
    return [
        _told(data.events.update(event, {"place": first + number}))
        for number, event in enumerate(unplaced)
    ]


@models(_sql.untold)
def untold(data: Data, limit: int) -> list[Row]:
    (head,) = data.event_head.all()
    places = range(head["told"] + 1, head["place"] + 1)
    found = (data.events.find("events_placed", place) for place in places)
    return [_told(event) for event in found if event is not None][:limit]


def _told(event: Row) -> Row:
    return {name: event[name] for name in ("place", "account_id", "task_id", "node_id", "kind")}


@models(_audit.lock_head)
def lock_head(data: Data) -> list[Row]:
    (head,) = data.audit_head.all()
    return [{"number": head["number"], "hash": head["hash"], "at": data.now}]


@models(_audit.append)
def append_audit(
    data: Data,
    first: int,
    at: datetime,
    kinds: list[str],
    actors: list[str],
    subjects: list[str],
    details: list[bytes],
    hashes: list[bytes],
) -> list[Row]:
    for place, (kind, actor, subject, detail, digest) in enumerate(
        zip(kinds, actors, subjects, details, hashes, strict=True)
    ):
        data.audit.insert(
            {
                "number": first + place,
                "at": at,
                "kind": kind,
                "actor": actor,
                "subject": subject,
                "detail": detail,
                "hash": digest,
            }
        )
    return []


@models(_audit.move_head)
def move_head(data: Data, number: int, digest: bytes) -> list[Row]:
    (head,) = data.audit_head.all()
    data.audit_head.update(head, {"number": number, "hash": digest})
    return []
