"""What a node signs about its attempts: while they run, when they end, when they are stopped."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value
from potluck.model.ids import NodeId
from potluck.model.usage import Usage
from potluck.provider.attempt.journal import WorkTimes
from potluck.provider.attempt.receipt_book import ReceiptBook
from potluck.provider.attempt.receipts import AttemptReceipts
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.holding import WorkFacts, work_facts
from potluck.provider.instruction import SignReceipt
from potluck.provider.server.node_key import load_key
from potluck.wire.provider import Grant, NodeRegistered
from potluck.wire.signing.receipt import NO_HASH, Receipt
from tests.provider.builders import a_grant, completed, lease_of
from tests.provider.server.connected_client import during, until
from tests.wallets import Wallet

REGISTERED = NodeRegistered(
    NodeId("node_01j00000000000000000000000"),
    [],
    *(90.0, 20.0, 20.0),
    signing_address=Wallet("the server").address,
    receipt_seconds=0.01,
)


class Signing:
    def __init__(self, directory: Path) -> None:
        self.book = ReceiptBook(directory, load_key(directory))
        self.receipts = AttemptReceipts(self.book, ChangeCounter())
        self.receipts.bind(REGISTERED)

    def signed(self) -> list[Receipt]:
        self.book.flush()
        return [receipt.receipt for receipt in self.book.unsent()]

    def facts(self, grant: Grant, price: int = 0) -> WorkFacts:
        return replace(work_facts(grant), price_micro_per_hour=price)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Signing]:
    signing = Signing(tmp_path)
    async with during(signing.receipts.run()):
        yield signing
    signing.receipts.close()


async def test_a_long_attempt_with_a_price_is_signed_at_intervals(node: Signing) -> None:
    grant, free = a_grant(), a_grant()
    facts = node.facts(grant, price=5)
    node.receipts.began(grant.attempt_id, facts)
    node.receipts.began(free.attempt_id, node.facts(free))
    await until(lambda: len(node.signed()) >= 2)
    node.receipts.ended(grant.attempt_id)
    finished = replace(completed(lease_of(grant)), usage=Usage(run_seconds=1.5))
    node.receipts.sign([SignReceipt(grant.attempt_id, facts, finished)])
    *parts, last = node.signed()
    assert [part.part for part in parts] == list(range(len(parts)))
    assert {(part.is_last, part.reason, part.attempt_id) for part in parts} == {
        (False, "", grant.attempt_id)
    }
    assert sorted(part.worked_ms for part in parts) == [part.worked_ms for part in parts]
    assert (last.is_last, last.reason, last.part) == (True, "completed", len(parts))
    assert (last.worked_ms, last.price_micro_per_hour) == (1_500, 5)
    assert last.devices == (f"{grant.devices[0].device_id}:1000",)
    assert 0 < last.started_at_ms <= last.ended_at_ms


async def test_the_receipt_of_a_stopped_attempt_has_its_reason_and_run_time(node: Signing) -> None:
    grant = a_grant()
    node.receipts.began(grant.attempt_id, node.facts(grant))
    node.receipts.ended(grant.attempt_id)
    node.receipts.sign([SignReceipt(grant.attempt_id, node.facts(grant))])
    (receipt,) = node.signed()
    assert (receipt.reason, receipt.result_sha256) == ("stopped", NO_HASH)
    assert receipt.worked_ms <= receipt.ended_at_ms - receipt.started_at_ms + 1


async def test_the_value_of_a_function_is_named_by_its_hash(node: Signing) -> None:
    hashes = []
    for value in (Value(b"42"), Value(blob=BlobRef("ab" * 32, 10**6))):
        grant = a_grant()
        finished = replace(completed(lease_of(grant)), value=value)
        node.receipts.sign([SignReceipt(grant.attempt_id, node.facts(grant), finished)])
        hashes.append(node.signed()[-1].result_sha256)
    sha256_of_42 = "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049"
    assert hashes == [sha256_of_42, "ab" * 32]


async def test_the_times_of_an_earlier_process_come_from_the_journal(node: Signing) -> None:
    grant = a_grant()
    node.receipts.recovered(grant.attempt_id, WorkTimes(1_000, 61_000))
    finished = replace(completed(lease_of(grant)), usage=Usage(run_seconds=60.0))
    node.receipts.sign([SignReceipt(grant.attempt_id, node.facts(grant), finished)])
    (receipt,) = node.signed()
    assert (receipt.started_at_ms, receipt.ended_at_ms) == (1_000, 61_000)
    assert receipt.worked_ms == 60_000
