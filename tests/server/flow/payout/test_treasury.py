"""The treasury signs what the ledger supports, once, and remembers it in a file of its own."""

import re
import secrets
import stat
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from potluck.model.error import ChainUnreachable, TransactionRefused
from potluck.model.payout import TransactionKind
from potluck.server.treasury.client import TreasuryClient
from potluck.server.treasury.messages import SignTransaction
from potluck.server.treasury.process import open_treasury
from tests.architecture.repository_files import DOCS
from tests.chain.rewards import PROPOSER
from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.wallets import Wallet


async def planned(paying: PayingPool) -> SignTransaction:
    """The request for the proposal of a root that the ledger has planned."""
    carol = await paying.add_wallet("carol")
    paying.mine()
    await paying.round()
    await paying.reward(carol, 7 * CREDIT)
    await paying.close_epoch()
    await paying.round()
    async with paying.pool.services.database.transaction() as connection:
        root = await connection.fetchrow("SELECT * FROM chain_roots")
    return SignTransaction(
        paying.settings.chain_id,
        paying.settings.contract,
        TransactionKind.PROPOSE,
        root["number"],
        root["root"],
        str(int(root["total_units"])),
        root["statement"],
        nonce=40,
        gas=200_000,
        max_fee=10,
        max_tip=1,
    )


async def test_the_same_again_is_the_same_signature(paying: PayingPool) -> None:
    request, client = await planned(paying), TreasuryClient(paying.socket)
    first = await client.sign(request)
    assert await client.sign(request) == first
    # A higher fee is another version of the same transaction.
    assert await client.sign(replace(request, max_fee=20)) != first
    # And a new transaction, after the first one failed, has the same content.
    await client.sign(replace(request, nonce=41))


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"root": b"x" * 32}, "not the root of the ledger"),
        ({"total_units": str(7 * CREDIT + 1)}, "its total is not"),
        ({"statement": b"x" * 32}, "statement"),
        ({"number": 2}, "no root of epoch 2"),
        ({"contract": Wallet("mallory").address}, "works for"),
        ({"chain_id": 1}, "works for"),
        ({"gas": 30_000_000}, "gas"),
    ],
)
async def test_a_root_that_is_not_of_the_ledger_is_refused(
    paying: PayingPool, changes: dict[str, Any], because: str
) -> None:
    request, client = await planned(paying), TreasuryClient(paying.socket)
    with pytest.raises(TransactionRefused, match=because):
        await client.sign(replace(request, **changes))
    assert not (paying.directory / "treasury" / "journal.jsonl").exists(), "nothing was signed"


@pytest.mark.parametrize(
    ("statement", "because"),
    [
        # The server's own tables say that more was assigned than the ledger has.
        (
            "ALTER TABLE chain_rewards DISABLE TRIGGER ALL;"
            " UPDATE chain_rewards SET amount_micro = amount_micro + 1",
            "more than the ledger has set aside",
        ),
        # Entries that set something aside which nobody earned.
        (
            "ALTER TABLE ledger_entries DISABLE TRIGGER ALL;"
            " UPDATE ledger_entries SET amount_micro = 1 WHERE kind = 'reward'",
            "than it has earned",
        ),
        (
            "INSERT INTO payouts (id, account_id, amount_micro)"
            " SELECT 'outside', account_id, 1 FROM chain_rewards",
            "more than the ledger has set aside",
        ),
    ],
)
async def test_rows_that_the_ledger_does_not_cover_are_refused(
    paying: PayingPool, statement: str, because: str
) -> None:
    request, client = await planned(paying), TreasuryClient(paying.socket)
    async with paying.pool.services.database.transaction() as connection:
        await connection.execute(statement)
    with pytest.raises(TransactionRefused, match=because):
        await client.sign(request)


async def test_a_signed_transaction_is_never_signed_differently_even_after_a_restart(
    paying: PayingPool,
) -> None:
    request, client = await planned(paying), TreasuryClient(paying.socket)
    signature = await client.sign(request)
    paying.socket = paying.directory / "again"
    journal = paying.directory / "treasury" / "journal.jsonl"
    # A crash in the middle of the next line.
    with journal.open("ab") as file:
        file.write(b'{"content": {"chain')
    other = paying.directory / "other"
    other.mkdir()
    journal.rename(other / "journal.jsonl")
    paying.directory = other.parent
    async with _open(paying, other) as client:
        assert await client.sign(request) == signature
        accept = replace(request, kind=TransactionKind.ACCEPT)
        with pytest.raises(TransactionRefused, match="nonce 40 was signed"):
            await client.sign(accept)
        await client.sign(replace(accept, nonce=41))
        await paying.pool.sql("UPDATE chain_roots SET root = decode(repeat('ab', 32), 'hex')")
        with pytest.raises(TransactionRefused, match="contradicts a root that was signed"):
            await client.sign(replace(request, root=b"\xab" * 32, nonce=42))


def _open(paying: PayingPool, directory: Path) -> Any:
    @asynccontextmanager
    async def opened() -> Any:
        socket = directory / "socket"
        async with open_treasury(
            directory, socket, PROPOSER, paying.settings, lambda: paying.database_url
        ):
            yield TreasuryClient(socket)

    return opened()


async def test_the_socket_is_its_users_alone(paying: PayingPool) -> None:
    assert stat.S_IMODE(paying.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(paying.socket.parent.stat().st_mode) == 0o700


async def test_a_treasury_that_does_not_run_is_said_so(paying: PayingPool) -> None:
    with pytest.raises(ChainUnreachable):
        await TreasuryClient(paying.directory / "nothing").read_address()


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"\xff\n", b'{"type": "SignTransaction"}\n'])
async def test_junk_is_refused_and_ends_nothing(paying: PayingPool, line: bytes) -> None:
    client = TreasuryClient(paying.socket)
    assert b"cannot be read" in await client._exchange(line)
    assert await client.read_address()


async def test_a_role_that_can_only_read_is_enough(paying: PayingPool) -> None:
    """With the statements of docs/money.md."""
    request = await planned(paying)
    (statements,) = re.findall(r"```sql\n(.*?)```", (DOCS / "money.md").read_text(), re.DOTALL)
    role = f"potluck_treasury_{secrets.token_hex(4)}"
    role_statements = statements.replace("potluck_treasury", role).replace("…", "secret")
    async with paying.pool.services.database.transaction() as connection:
        await connection.execute(role_statements)
    parts = urlsplit(paying.database_url)
    url = parts._replace(netloc=f"{role}:secret@{parts.netloc.rpartition('@')[2]}").geturl()
    directory = paying.directory / "reader"
    try:
        async with open_treasury(
            directory, directory / "socket", PROPOSER, paying.settings, lambda: url
        ):
            await TreasuryClient(directory / "socket").sign(request)
    finally:
        async with paying.pool.services.database.transaction() as connection:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
