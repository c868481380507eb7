"""What was paid outside the pool is recorded once, all rows or none."""

import asyncio

import asyncpg
import pytest

from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, NotFound
from potluck.server.flow.settle.payouts import mark_paid
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.flow.settle.statements import sign_statement
from potluck.store.ledger import payouts
from potluck.store.ledger.payouts import Payout
from potluck.wire.money.rewards import PaidRow, PayoutsMarked
from potluck.wire.signing.epoch_statement import statement_sha256, statement_signer
from tests.server.flow.pool import Pool
from tests.server.flow.settle.reward_epochs import (
    CREDIT,
    close,
    earn,
    many_payees,
    standing,
    want_payout,
)
from tests.wallets import Wallet

BOB = Wallet("bob").address


def row(payout_id: str, amount: int, wallet: str = BOB) -> PaidRow:
    return PaidRow(payout_id, wallet, amount * CREDIT)


async def mark(pool: Pool, *rows: PaidRow) -> PayoutsMarked:
    marked = await mark_paid(pool.services, pool.alice, rows)
    await pool.check()
    return marked


async def claim_and_paid(pool: Pool) -> tuple[int, int]:
    bob = await standing(pool, pool.bob)
    return bob.claimable_micro // CREDIT, bob.paid_micro // CREDIT


@pytest.fixture
async def payee(pool: Pool) -> Pool:
    """Ten credits are to be paid to Bob."""
    await want_payout(pool, pool.bob)
    await earn(pool, 10)
    await close(pool)
    return pool


async def test_a_payout_moves_claimable_credit_out_of_the_pool(payee: Pool) -> None:
    assert await mark(payee, row("a", 4)) == PayoutsMarked(1, 0, 4 * CREDIT)
    assert await claim_and_paid(payee) == (6, 4)
    audited = await payee.sql(
        "SELECT count(*) FROM audit WHERE kind = $1", AuditKind.PAYOUTS_MARKED
    )
    assert audited == 1


async def test_the_same_row_again_changes_nothing(payee: Pool) -> None:
    await mark(payee, row("a", 4))
    assert await mark(payee, row("a", 4), row("b", 1)) == PayoutsMarked(1, 1, CREDIT)
    assert await mark(payee, row("a", 4), row("b", 1)) == PayoutsMarked(0, 2, 0)
    assert await claim_and_paid(payee) == (5, 5)


async def test_every_bad_row_is_reported_and_nothing_is_recorded(payee: Pool) -> None:
    await mark(payee, row("a", 4))
    stranger = Wallet("nobody here").address
    wrong = f"{BOB[:-1]}{'0' if BOB[-1] != '0' else '1'}"
    marked = await mark(
        payee,
        row("fine", 1),
        row("a", 5),
        row("b", 6),
        row("c", 1, stranger),
        row("fine", 2),
        row("d", 1, wrong),
    )
    assert (marked.recorded, marked.amount_micro) == (0, 0)
    assert [(bad.row, bad.id) for bad in marked.bad] == [
        *((2, "a"), (3, "b"), (4, "c"), (5, "fine"), (6, "d"))
    ]
    sentences = [bad.sentence for bad in marked.bad]
    assert sentences[0] == f"This id is recorded already, with 4 credits for {BOB}."
    assert sentences[1] == f"Only 5 credits are claimable by {BOB}."
    assert sentences[2] == f"No account has the wallet {stranger}."
    assert sentences[3] == "Its id is also that of an earlier row."
    assert await claim_and_paid(payee) == (6, 4)


async def test_a_wallet_may_be_written_in_lower_case(payee: Pool) -> None:
    assert (await mark(payee, row("a", 4, BOB.lower()))).recorded == 1


async def test_parallel_marks_of_one_file_count_once(payee: Pool) -> None:
    rows = [row(f"id {number}", 1) for number in range(10)]
    marks = await asyncio.gather(*(mark_paid(payee.services, payee.alice, rows) for _ in range(6)))
    assert sorted(marked.recorded for marked in marks) == [0, 0, 0, 0, 0, 10]
    assert await claim_and_paid(payee) == (0, 10)
    await payee.check()


async def test_one_id_for_two_wallets_at_once_is_refused(payee: Pool) -> None:
    (_,) = await many_payees(payee, 1)
    await close(payee)
    worker = Wallet("worker 0").address
    calls = [
        mark_paid(payee.services, payee.alice, [row("one id", 1, wallet)])
        for wallet in (BOB, worker)
    ]
    first, second = await asyncio.gather(*calls, return_exceptions=True)
    marked = [outcome for outcome in (first, second) if isinstance(outcome, PayoutsMarked)]
    assert sum(outcome.recorded for outcome in marked) == 1
    assert all(isinstance(outcome, Conflict | PayoutsMarked) for outcome in (first, second))
    await payee.check()


async def test_the_database_refuses_more_than_is_claimable(payee: Pool) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        async with payee.services.database.transaction() as connection:
            payout = Payout("too much", payee.bob, 11 * CREDIT)
            await payouts.record(connection, [payout], None)
    with pytest.raises(asyncpg.RestrictViolationError):
        await payee.sql("DELETE FROM payouts")
    await payee.check()


async def test_claimants_are_listed_with_the_epoch_since_which_they_are_unpaid(payee: Pool) -> None:
    await earn(payee, 5)
    await close(payee)
    async with payee.services.database.transaction() as connection:
        (claimant,) = await payouts.list_claimants(connection, "", 10)
    assert (claimant.claimable_micro, claimant.unpaid_since_epoch) == (15 * CREDIT, 1)
    await mark(payee, row("a", 10))
    async with payee.services.database.transaction() as connection:
        (claimant,) = await payouts.list_claimants(connection, "", 10)
    assert (claimant.claimable_micro, claimant.unpaid_since_epoch) == (5 * CREDIT, 2)


async def test_statements_are_signed_by_the_server_and_stay_the_same(payee: Pool) -> None:
    own_statement = await sign_statement(payee.services, 1, payee.bob)
    whole_statement = await sign_statement(payee.services, 1)
    assert own_statement.signer == whole_statement.signer == server_signer(payee.services).address
    for signed in (own_statement, whole_statement):
        assert statement_signer(signed.statement, signed.signature) == signed.signer
        assert statement_sha256(signed.statement).hex() == signed.sha256
    (line,) = own_statement.statement.lines
    assert (line.wallet, line.amount_micro) == (BOB, 10 * CREDIT)
    stored = await payee.sql("SELECT statement_sha256 FROM epochs WHERE number = 1")
    assert whole_statement.sha256 == stored.hex()
    await mark(payee, row("a", 4))
    await earn(payee)
    await close(payee)
    assert await sign_statement(payee.services, 1, payee.bob) == own_statement


async def test_an_open_epoch_and_other_accounts_have_no_statement(payee: Pool) -> None:
    with pytest.raises(NotFound, match="Epoch 2 is not closed"):
        await sign_statement(payee.services, 2)
    with pytest.raises(NotFound, match="You have no statement of this epoch"):
        await sign_statement(payee.services, 1, payee.alice)
