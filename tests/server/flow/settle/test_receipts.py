"""Receipts: nodes sign what they did, the server countersigns, and each node has a chain."""

import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from potluck.consumer.receipt_check import check_receipts
from potluck.model.error import InvalidInput
from potluck.model.ids import AccountId
from potluck.model.lease import AttemptState
from potluck.provider.attempt.receipt_book import ReceiptBook
from potluck.provider.server.node_key import NodeKey
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.settle.receipts import sign_export
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.flow.settle.slices import settle_slices
from potluck.store.ledger import receipts
from potluck.store.ledger.receipts import ReceiptSelection, StoredReceipt
from potluck.wire.provider import Started
from potluck.wire.signing.receipt import ReceiptSide, receipt_digest
from tests.server.flow.pool import Pool, done, lease_of, used
from tests.server.flow.settle.test_slices import let_pass, lose
from tests.signing_node import SigningNode, claim
from tests.wallets import Wallet

pytestmark = pytest.mark.every_postgres

HOUR_MICRO = 3_600_000_000  # a credit a second


@pytest.fixture
async def node(pool: Pool, tmp_path: Path) -> SigningNode:
    await pool.give(pool.alice, 10**12)
    return await SigningNode.join(pool, tmp_path / "node", price_micro_per_hour=HOUR_MICRO)


async def stored(
    pool: Pool, side: ReceiptSide = ReceiptSide.PROVIDER, account_id: AccountId | None = None
) -> list[StoredReceipt]:
    selection = ReceiptSelection(account_id or pool.bob, side)
    async with pool.services.database.transaction() as connection:
        return await receipts.page(connection, selection, 100)


async def exported(pool: Pool, side: ReceiptSide = ReceiptSide.PROVIDER) -> list[bytes]:
    account_id = pool.bob if side is ReceiptSide.PROVIDER else pool.alice
    stored_receipts = await stored(pool, side, account_id)
    end = await sign_export(pool.services, ReceiptSelection(account_id, side))
    return [
        *(msgspec.json.encode(entry.signed) for entry in stored_receipts),
        msgspec.json.encode(end),
    ]


async def finish(node: SigningNode, seconds: float = 60.0) -> None:
    """One task from start to receipt, without the heartbeat."""
    grant = await node.work()
    await node.pool.report(node.node_id, Started(lease_of(grant)))
    await let_pass(node.pool, seconds)
    await node.pool.report(node.node_id, done(grant, usage=used(seconds)))
    node.sign(claim(grant, worked_ms=round(1000 * seconds)))


async def test_both_sides_sign_the_work_and_the_charge(pool: Pool, node: SigningNode) -> None:
    await finish(node)
    response = await node.beat()
    assert (response.refused, response.next_number) == ("", 2)
    (entry,) = await stored(pool)
    receipt, accepted = entry.signed.receipt, entry.signed.countersignature
    assert (receipt.number, receipt.starts, receipt.worked_ms) == (1, "first", 60_000)
    assert (receipt.account_id, receipt.node_key) == (pool.alice, node.key.address)
    assert (accepted.state, accepted.reason) == (AttemptState.SUCCEEDED, "completed")
    assert (accepted.charged_micro, accepted.held_back_micro) == (60_000_000, 0)
    assert (accepted.chain_of_node, accepted.adoption, accepted.slices) == (1, 0, 0)
    assert not node.book.has_pending
    check = check_receipts(
        await exported(pool), server_signer(pool.services).address, [node.key.address]
    )
    assert check.is_good, check.bad
    assert (check.attempts, check.worked_ms, check.charged_micro) == (1, 60_000, 60_000_000)


async def test_an_answer_that_was_lost_is_given_again(pool: Pool, node: SigningNode) -> None:
    """The server was killed after it took them, or the connection was cut."""
    await finish(node)
    first = await node.send()
    node.reopen()
    assert await node.beat() == first
    assert not node.book.has_pending
    assert len(await stored(pool)) == 1


async def test_a_provider_that_was_killed_goes_on_with_its_chain(
    pool: Pool, node: SigningNode
) -> None:
    await finish(node)
    node.reopen()  # signed, and not sent
    await finish(node)
    assert (await node.beat()).refused == ""
    await finish(node)
    node.reopen()
    # A line that the kill cut short is not part of the chain.
    with (node.directory / "receipts.jsonl").open("ab") as file:
        file.write(b'{"receipt":{"server":"0x')
    node.reopen()
    await finish(node)
    assert (await node.beat()).next_number == 5
    assert [entry.signed.receipt.number for entry in await stored(pool)] == [1, 2, 3, 4]
    assert check_receipts(await exported(pool)).is_good


async def test_an_end_that_is_reported_again_after_a_kill_is_signed_once(
    pool: Pool, node: SigningNode
) -> None:
    grant = await node.work()
    await pool.report(node.node_id, done(grant))
    node.sign(claim(grant))
    node.reopen()  # before the journal had forgotten it
    assert await pool.report(node.node_id, done(grant)) == ["accepted"]
    node.sign(claim(grant))
    assert [entry.receipt.number for entry in node.book.unsent()] == [1]


async def test_a_fork_is_refused_and_counted(pool: Pool, node: SigningNode, tmp_path: Path) -> None:
    """A copy of the machine signs another receipt after the same one."""
    await finish(node)
    await node.beat()
    shutil.copytree(node.directory, tmp_path / "copy")
    copy = ReceiptBook(tmp_path / "copy", node.key)
    copy.bind(node.server, node.node_id)
    await finish(node)
    await node.beat()
    grant = await node.work()
    await pool.report(node.node_id, done(grant))
    copy.sign([claim(grant)])
    copy.flush()
    response = await node.send(*copy.unsent())
    assert response.refused == "fork"
    assert response.detail == "The chain has another receipt 2 already: a chain cannot fork."
    assert await pool.sql("SELECT forks FROM receipt_chains") == 1
    assert len(await stored(pool)) == 2
    # The copy goes on with a chain of its own, which says why.
    copy.take(response)
    copy.flush()
    response = await node.send(*copy.unsent())
    assert (response.refused, response.next_number) == ("", 2)
    first = (await stored(pool))[-1].signed
    assert (first.receipt.starts, first.countersignature.chain_of_node) == ("refused", 2)
    check = check_receipts(await exported(pool))
    assert check.is_good, check.bad
    assert [chain.of_node for chain in check.chains] == [1, 2]


async def test_two_receipts_with_the_same_predecessor_are_a_fork_also_in_one_heartbeat(
    pool: Pool, node: SigningNode
) -> None:
    await finish(node)
    grant = await node.work()
    await pool.report(node.node_id, done(grant))
    (first,) = node.book.unsent()
    receipt = replace(first.receipt, attempt_id=grant.attempt_id, task_id=grant.task_id)
    forged = replace(
        first, receipt=receipt, node_signature=node.key.sign_digest(receipt_digest(receipt))
    )
    response = await node.send(first, forged)
    assert (response.refused, len(response.countersigned)) == ("fork", 1)


async def test_a_reinstalled_node_starts_a_chain_that_says_so(
    pool: Pool, node: SigningNode, tmp_path: Path
) -> None:
    await finish(node)
    await node.beat()
    shutil.rmtree(node.directory)
    node.reopen()
    await finish(node)
    await node.beat()
    # And one with a new key, which is another node.
    other = await SigningNode.join(pool, node.directory, "other", price_micro_per_hour=HOUR_MICRO)
    await pool.sql("UPDATE nodes SET state = 'left' WHERE id = $1", node.node_id)
    await finish(other)
    await other.beat()
    chains = check_receipts(await exported(pool)).chains
    assert [(chain.starts, chain.of_node) for chain in chains] == [
        ("first", 1),
        ("first", 2),
        ("moved", 1),
    ]
    assert chains[2].node_key == other.key.address != chains[0].node_key


async def test_a_server_that_was_restored_from_a_backup_gets_what_it_lacks(
    pool: Pool, node: SigningNode
) -> None:
    for _ in range(3):
        await finish(node)
        await node.beat()
    second = (await stored(pool))[1].digest
    first = (await stored(pool))[0].digest
    assert second != first
    await pool.sql("DELETE FROM receipts WHERE number > 1")
    await pool.sql("UPDATE receipt_chains SET receipts = 1, last_digest = $1", first)
    await finish(node)
    assert (await node.beat()).refused == "gap"
    assert (await node.beat()).next_number == 5
    assert [entry.signed.receipt.number for entry in await stored(pool)] == [1, 2, 3, 4]
    assert check_receipts(await exported(pool)).is_good


async def test_slices_and_both_lives_of_an_adopted_attempt_continue_the_chain(
    pool: Pool, node: SigningNode
) -> None:
    settings = replace(pool.services.settings, settle_seconds=300.0, checkpoint_seconds=60.0)
    pool.services = replace(pool.services, settings=settings)
    grant = await node.work(run_seconds=86_400.0)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await let_pass(pool, 300)
    await settle_slices(pool.services, pool.leads)
    node.sign(claim(grant, is_last=False, reason="", worked_ms=300_000))
    await node.beat()
    await lose(pool)
    await pool.beat(node.node_id, lease_of(grant))  # takes it back
    await let_pass(pool, 300)
    await settle_slices(pool.services, pool.leads)
    node.sign(claim(grant, is_last=False, reason="", worked_ms=600_000))
    await node.beat()
    await let_pass(pool, 100)
    await pool.report(node.node_id, done(grant, usage=used(700.0)))
    node.sign(claim(grant, worked_ms=700_000))
    await node.beat()
    signed_receipts = [entry.signed for entry in await stored(pool)]
    assert [signed.receipt.part for signed in signed_receipts] == [0, 1, 2]
    accepted = [signed.countersignature for signed in signed_receipts]
    assert [acceptance.adoption for acceptance in accepted] == [0, 1, 1]
    assert [acceptance.slices for acceptance in accepted] == [1, 1, 1]
    assert [acceptance.state for acceptance in accepted] == ["running", "running", "succeeded"]
    assert [acceptance.held_back_micro > 0 for acceptance in accepted] == [True, True, False]
    seconds = [acceptance.charged_micro / 1_000_000 for acceptance in accepted]
    assert seconds == pytest.approx([300, 600, 700], abs=20)
    check = check_receipts(await exported(pool))
    assert check.is_good, check.bad
    # Counted once.
    assert (check.attempts, check.worked_ms) == (1, 700_000)
    assert check.charged_micro == accepted[-1].charged_micro


async def test_a_cancelled_attempt_is_signed_by_both(pool: Pool, node: SigningNode) -> None:
    grant = await node.work()
    await pool.report(node.node_id, Started(lease_of(grant)))
    await let_pass(pool, 60)
    await cancel(pool.services, pool.alice, grant.task_id)
    node.sign(claim(grant, reason="stopped"))
    await node.beat()
    (entry,) = await stored(pool)
    assert entry.signed.countersignature.state == "cancelled"
    assert entry.signed.countersignature.charged_micro == pytest.approx(60_000_000, abs=20_000_000)


@pytest.mark.parametrize(
    ("field", "value", "refusal"),
    [
        ("account_id", "account_01j00000000000000000000000", "foreign"),
        ("task_id", "task_01j00000000000000000000000", "foreign"),
        ("attempt_id", "attempt_01j00000000000000000000000", "foreign"),
        ("number", 2, "gap"),
        ("previous", "1" * 64, "fork"),
        ("server", Wallet("alice").address, "signature"),
    ],
)
async def test_a_receipt_that_says_something_else_is_refused(
    pool: Pool, node: SigningNode, field: str, value: object, refusal: str
) -> None:
    await finish(node)
    (receipt_entry,) = node.book.unsent()
    receipt = replace(receipt_entry.receipt, **{field: value})
    signature = node.key.sign_digest(receipt_digest(receipt))
    response = await node.send(replace(receipt_entry, receipt=receipt, node_signature=signature))
    assert response.refused == refusal and response.detail
    assert await stored(pool) == []


async def test_only_the_key_of_the_node_signs_for_it(pool: Pool, node: SigningNode) -> None:
    await finish(node)
    (entry,) = node.book.unsent()
    stranger = NodeKey(Wallet("stranger").key)
    for signature in (
        stranger.sign_digest(receipt_digest(entry.receipt)),
        "0x",
        "0x1",
        "0x" + "00" * 65,
    ):
        response = await node.send(replace(entry, node_signature=signature))
        assert response.refused == "signature"
    assert await stored(pool) == []


async def test_the_other_signature_of_the_same_key_is_the_same_receipt(
    pool: Pool, node: SigningNode
) -> None:
    """A signature has a twin (s and n − s): it must not count as another receipt."""
    await finish(node)
    (entry,) = node.book.unsent()
    first = await node.send()
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    raw = bytes.fromhex(entry.node_signature[2:])
    twin = raw[:32] + (order - int.from_bytes(raw[32:64])).to_bytes(32) + bytes([55 - raw[64]])
    assert await node.send(replace(entry, node_signature=f"0x{twin.hex()}")) == first
    assert len(await stored(pool)) == 1


async def test_an_attempt_has_one_last_receipt(pool: Pool, node: SigningNode) -> None:
    await finish(node)
    (entry,) = node.book.unsent()
    await node.beat()
    second_receipt = replace(
        entry.receipt, number=2, previous=receipt_digest(entry.receipt).hex(), starts=""
    )
    signature = node.key.sign_digest(receipt_digest(second_receipt))
    response = await node.send(replace(entry, receipt=second_receipt, node_signature=signature))
    assert response.refused == "repeated"


async def test_consumers_see_those_of_their_tasks_only(pool: Pool, node: SigningNode) -> None:
    await finish(node)
    await node.beat()
    assert len(await stored(pool, ReceiptSide.CONSUMER, pool.alice)) == 1
    assert await stored(pool, ReceiptSide.CONSUMER, pool.bob) == []
    assert await stored(pool, ReceiptSide.PROVIDER, pool.alice) == []
    assert check_receipts(await exported(pool, ReceiptSide.CONSUMER)).is_good


async def test_a_missing_receipt_shows(pool: Pool, node: SigningNode) -> None:
    """A node of the last minor version signs nothing."""
    grant = await node.work()
    await pool.report(node.node_id, done(grant))
    await finish(node)
    await node.beat()
    for side, account_id in ((ReceiptSide.PROVIDER, pool.bob), (ReceiptSide.CONSUMER, pool.alice)):
        async with pool.services.database.transaction() as connection:
            states = await receipts.attempt_states(connection, account_id, side, None, 10)
            attempt_states = await receipts.attempt_states(
                connection, account_id, side, states[0].attempt_id, 10
            )
        assert [state.is_complete for state in states] == [True, False]
        assert [state.attempt_id for state in attempt_states] == [grant.attempt_id]


async def test_a_lost_attempt_is_signed_when_its_node_comes_back_too_late(
    pool: Pool, node: SigningNode
) -> None:
    grant = await node.work()
    await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    assert await expire.expire_once(pool.services, pool.leads) == 1
    node.sign(claim(grant, reason="stopped"))
    await node.beat()
    (entry,) = await stored(pool)
    assert entry.signed.countersignature.reason == "lease_expired"
    assert entry.signed.countersignature.charged_micro == 0


async def test_an_export_has_a_bound_and_may_be_continued(
    pool: Pool, node: SigningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await finish(node)
    await node.beat()
    first, second, third = await stored(pool)
    monkeypatch.setattr("potluck.server.flow.settle.receipts.MOST_EXPORTED", 2)
    monkeypatch.setattr("potluck.server.flow.settle.receipts._DIGESTS_PAGE", 1)
    selection = ReceiptSelection(pool.bob, ReceiptSide.PROVIDER)
    with pytest.raises(InvalidInput, match="at most 2 receipts"):
        await sign_export(pool.services, selection)
    parts = ((0, second.id, [first, second]), (second.id, third.id, [third]))
    for after, until, expected in parts:
        end = await sign_export(pool.services, replace(selection, after=after, until=until))
        lines = [
            *(msgspec.json.encode(entry.signed) for entry in expected),
            msgspec.json.encode(end),
        ]
        check = check_receipts(lines, end.server, ())
        assert (check.bad, check.receipts) == (None, len(expected))
