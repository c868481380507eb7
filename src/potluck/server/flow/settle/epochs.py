"""Epochs: when one is over, each account's rewards of it are counted, and set aside for a payout.

It is closed in steps, each in a transaction of its own: begun, some accounts at a time, finished.
After a crash the next leader continues where the last one stopped, since an account that was
counted has a row that says so. What belongs to an epoch is what was paid when its account was
counted; a payment that commits later is in the next one.
"""

import structlog

from potluck.decide.epochs import close_account, epoch_entries, next_end
from potluck.server.flow.settle.statements import add_lines
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.ledger import epochs, ledger
from potluck.store.ledger.epochs import OpenEpoch
from potluck.store.ledger.ledger import Movement
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership
from potluck.wire.signing.epoch_statement import EpochStatement, statement_sha256

log = structlog.get_logger()

# All balances of a batch stay locked until it commits.
_BATCH = 200


async def close_epoch(services: Services, leadership: Leadership) -> int | None:
    """Closes the open epoch if it is over, and returns its number. Opens the first one."""
    number = await _begin(services, leadership)
    if number is None:
        return None
    after_id: str | None = ""
    while after_id is not None:
        async with services.database.transaction() as connection:
            epoch = await _lock(connection, leadership)
            if epoch is None or epoch.number != number:
                return None
            after_id = await _count(connection, number, after_id)
            if after_id is None:
                await _finish(services, connection, epoch)
    log.info("epoch closed", epoch=number)
    return number


async def _begin(services: Services, leadership: Leadership) -> int | None:
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return None
        epoch = await epochs.lock_open(connection)
        if epoch is None:
            now = await epochs.read_time(connection)
            await epochs.open_first(connection, next_end(now, services.settings.epoch_seconds))
            return None
        if not epoch.is_over:
            return None
        await epochs.begin_closing(connection, epoch.number)
        return epoch.number


async def _lock(connection: Connection, leadership: Leadership) -> OpenEpoch | None:
    if not await leader.is_current(connection, leadership):
        return None
    return await epochs.lock_open(connection)


async def _count(connection: Connection, number: int, after_id: str) -> str | None:
    """Counts the next accounts; returns the last one, or None if there was none."""
    account_ids = await epochs.list_uncounted(connection, number, after_id, _BATCH)
    if not account_ids:
        return None
    uncounted = await epochs.lock_uncounted(connection, number, account_ids)
    rewards = [close_account(account) for account in uncounted]
    await epochs.count(connection, number, rewards)
    await ledger.append_many(
        connection, [Movement(epoch_entries(reward), epoch=number) for reward in rewards]
    )
    return account_ids[-1]


async def _finish(services: Services, connection: Connection, epoch: OpenEpoch) -> None:
    empty = EpochStatement(epoch.number, epoch.starts_at, epoch.ends_at, is_of_pool=True, lines=[])
    statement = await add_lines(connection, empty)
    ends_at = next_end(epoch.now, services.settings.epoch_seconds)
    await epochs.finish(connection, epoch.number, statement_sha256(statement), ends_at)
