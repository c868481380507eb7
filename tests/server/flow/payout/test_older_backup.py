"""A ledger that was restored from an older backup pays nothing twice."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.blobs.directory import DirectoryBlobs
from potluck.server.backup.archive import FileBackup
from potluck.server.backup.restore import restore_backup
from potluck.server.backup.run import BackupOptions, make_backup
from potluck.server.encryption.key_sources import KeyFile
from potluck.server.flow.payout.administration import resume_chain
from potluck.server.flow.payout.proof import find_proof
from potluck.store.database import Database
from potluck.store.scheduler import leader
from potluck.store.schema import migrate
from tests.databases import Databases
from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.wallets import Wallet

CAROL = Wallet("carol").address


@pytest.fixture
def other(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


@asynccontextmanager
async def restored(paying: PayingPool, backup: FileBackup, url: str) -> AsyncIterator[None]:
    """The pool continues on a database that has what the backup had."""
    keys = KeyFile(paying.directory / "encryption-key")
    await migrate(url)
    with backup.read(None) as reader:
        blobs = DirectoryBlobs(paying.directory / "restored")
        await restore_backup(url, blobs, keys, reader, False, True, lambda *_: None)
    database = await Database.connect(url, 8)
    before = paying.pool.services
    paying.pool.services = replace(before, database=database)
    async with database.transaction() as connection:
        leadership = await leader.acquire_or_renew(connection, "restored", 3600)
    assert leadership is not None
    paying.pool.leads = leadership
    try:
        yield
    finally:
        paying.pool.services = before
        await database.close()


@pytest.mark.parametrize("backup_moment", ["before the epoch", "planned", "proposed", "accepted"])
async def test_an_older_backup_cannot_pay_twice(
    paying: PayingPool, other: str, tmp_path: Path, backup_moment: str
) -> None:
    carol = await paying.add_wallet("carol")
    paying.rig.deposit(1000 * CREDIT, Wallet("alice").address)
    paying.mine()
    await paying.round()
    await paying.reward(carol, 7 * CREDIT)
    backup = FileBackup(tmp_path / "backup.potluck", None)

    async def back_up(moment: str) -> None:
        if moment == backup_moment:
            blobs = paying.pool.services.blobs
            await make_backup(paying.database_url, blobs, backup, BackupOptions(), lambda *_: None)

    await back_up("before the epoch")
    await paying.close_epoch()
    await paying.round()
    await back_up("planned")
    await paying.round()
    paying.mine()
    await paying.round()
    await back_up("proposed")
    await paying.pay_out()
    await back_up("accepted")
    assert await paying.claim("carol") == 7 * CREDIT
    paying.mine()
    await paying.round()
    async with restored(paying, backup, other), own_treasury(paying, other):
        await paying.round(3)
        if backup_moment == "before the epoch":
            # The ledger does not know the root that the contract has.
            assert await paying.pool.sql("SELECT halted_because FROM chain_contracts")
            await paying.close_epoch()
            await paying.round(3)
            assert await paying.pool.sql("SELECT count(*) FROM chain_roots") == 0
            await resume_chain(paying.pool.services, paying.pool.alice)
            assert await find_proof(paying.pool.services, CAROL) is None, "its leaves are lost"
        else:
            await paying.close_epoch()
        await paying.pay_out()
        await paying.round(2)
        assert paying.rig.balance(CAROL) == 7 * CREDIT
        await paying.reward(carol, 2 * CREDIT)
        await paying.close_epoch()
        await paying.pay_out()
        assert await paying.claim("carol") == 2 * CREDIT
        paying.mine()
        await paying.round(2)
        assert paying.rig.balance(CAROL) == 9 * CREDIT, "all that was earned, and no more"
        await paying.check_totals()
        assert (await paying.pool.balance(paying.pool.alice)).available_micro == 1000 * CREDIT


@asynccontextmanager
async def own_treasury(paying: PayingPool, url: str) -> AsyncIterator[None]:
    """It runs on, with its journal, and reads the restored ledger."""
    from potluck.server.treasury.journal import TreasuryJournal
    from potluck.server.treasury.process import _listen
    from potluck.server.treasury.signer import TreasurySigner
    from tests.chain.rewards import PROPOSER

    journal = TreasuryJournal(paying.directory / "treasury" / "journal.jsonl")
    signer = TreasurySigner(PROPOSER, paying.settings, lambda: url, journal)
    socket = paying.directory / "second"
    async with await _listen(socket, signer):
        paying.socket = socket
        paying.use(paying.rig)
        yield
