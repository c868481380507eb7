"""What an account may submit: its limits, its credit, and the room in its queue."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId
from potluck.model.task import Requirements
from potluck.store.database import Connection
from potluck.store.files.volumes import MountableVersion
from potluck.store.sql_files import load
from potluck.store.tasks.tasks import EarlierSubmission, NewTask

_sql = load("tasks")
# What the price depends on: cores, number and kind of devices.
_Size = tuple[int, int, DeviceKind | None]


class Quotas(Struct, frozen=True):
    """The most queued tasks of an account, and its highest priority; None: no limit."""

    queued: int | None
    priority: int | None


class Allowance(Struct, frozen=True):
    """An account's limits, credit and earlier submissions, and the cheapest prices."""

    wallet: str
    available_micro: int
    quotas: Quotas
    earlier: dict[str, EarlierSubmission]  # by idempotency key
    cheapest: dict[_Size, int | None]  # None: no offer
    volumes: tuple[MountableVersion, ...] = ()  # with the names that these tasks mount

    def cheapest_micro_per_hour(self, requirements: Requirements) -> int | None:
        """Nothing, if the task is for the account's own devices only."""
        if requirements.owners == (self.wallet.lower(),):
            return 0
        return self.cheapest[_size(requirements)]


async def read_allowance(
    connection: Connection, account_id: AccountId, new: Sequence[NewTask], defaults: Quotas
) -> Allowance:
    """The account's limits, its own or the defaults, and its earlier submissions of these tasks."""
    keys = [task.idempotency_key for task in new if task.idempotency_key is not None]
    sizes = list({_size(task.request.requirements) for task in new})
    row = await connection.fetchrow(
        *_sql.allowance(
            account_id=account_id,
            quotas=defaults,
            idempotency_keys=keys,
            cores=[cores for cores, _, _ in sizes],
            device_counts=[count for _, count, _ in sizes],
            device_kinds=[kind for _, _, kind in sizes],
        )
    )
    assert row is not None, "a submitter has an account"
    return Allowance(
        row["address"],
        row["available_micro"],
        Quotas(row["queued"], row["priority"]),
        {
            key: EarlierSubmission(task_id, hashed)
            for key, task_id, hashed in zip(
                row["keys"] or (), row["ids"] or (), row["hashes"] or (), strict=True
            )
        },
        dict(zip(sizes, row["cheapest"], strict=True)),
    )


def _size(requirements: Requirements) -> _Size:
    return requirements.cores, requirements.device_count, requirements.device_kind


async def room_in_queue(connection: Connection, account_id: AccountId, most: int) -> int:
    """How many more may be queued; locks the queue, so that no other takes the place."""
    await connection.execute(*_sql.lock_queue(account_id=account_id))
    return most - await count_queued(connection, account_id, most)


async def count_queued(connection: Connection, account_id: AccountId, most: int) -> int:
    """How many are queued, counted up to `most`."""
    return int(await connection.fetchval(*_sql.count_queued(account_id=account_id, limit=most)))
