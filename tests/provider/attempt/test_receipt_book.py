"""The file of receipts on a node: it survives kills, grows up to a limit, and names its chain."""

from pathlib import Path

import pytest

from potluck.model.ids import AttemptId
from potluck.model.lease import AttemptState
from potluck.provider.attempt import receipt_book
from potluck.provider.attempt.receipt_book import ReceiptBook, ReceiptClaim
from potluck.provider.server.node_key import NodeKey
from potluck.wire.provider import Heartbeat, for_earlier_server
from potluck.wire.signing.receipt import (
    MOST_RECEIPTS,
    NO_HASH,
    Countersignature,
    CountersignedReceipt,
    NodeSignedReceipt,
    ReceiptsAnswer,
    countersignature_digest,
    receipt_digest,
)
from potluck.wire.signing.signature import Signer, is_signed_by
from tests.wallets import Wallet

KEY, SERVER = NodeKey(Wallet("a node key").key), Signer(Wallet("the server").key)
NODE = "node_01j00000000000000000000000"


def claim(number: int, is_last: bool = True) -> ReceiptClaim:
    return ReceiptClaim(
        AttemptId(f"attempt_01j{number:023d}"),
        "task_01j00000000000000000000000",
        "account_01j00000000000000000000000",
        ("device_01j00000000000000000000000:1000",),
        is_last,
        *(1, 2, 3, "completed", 5),
    )


def opened(directory: Path, key: NodeKey = KEY, server: str = SERVER.address) -> ReceiptBook:
    book = ReceiptBook(directory, key)
    book.bind(server, NODE)
    return book


def answer(*receipts: NodeSignedReceipt, signer: Signer = SERVER) -> ReceiptsAnswer:
    countersigned = []
    for receipt in receipts:
        digest = receipt_digest(receipt.receipt).hex()
        accepted = Countersignature(
            digest, 1, 0, 0, AttemptState.SUCCEEDED, "completed", 5, 3, 0, 0, 0, 9
        )
        signature = signer.sign(countersignature_digest(accepted))
        countersigned.append(CountersignedReceipt(accepted, signature))
    return ReceiptsAnswer(tuple(countersigned))


def sign(book: ReceiptBook, *numbers: int) -> tuple[NodeSignedReceipt, ...]:
    book.sign([claim(number) for number in numbers])
    book.flush()
    return book.unsent()


def test_receipts_are_signed_and_chained(tmp_path: Path) -> None:
    first, second = sign(opened(tmp_path), 1, 2)
    assert (first.receipt.previous, first.receipt.starts) == (NO_HASH, "first")
    assert second.receipt.previous == receipt_digest(first.receipt).hex()
    assert (second.receipt.number, second.receipt.starts) == (2, "")
    for receipt in (first, second):
        assert is_signed_by(KEY.address, receipt_digest(receipt.receipt), receipt.node_signature)


def test_receipts_are_sent_only_after_they_are_on_disk(tmp_path: Path) -> None:
    """Or a power cut could make the node forget what the server knows, and fork its chain."""
    book = opened(tmp_path)
    book.sign([claim(1)])
    assert book.unsent() == () and book.has_pending
    book.flush()
    assert len(book.unsent()) == 1


def test_the_file_is_private_and_a_torn_line_is_removed(tmp_path: Path) -> None:
    book = opened(tmp_path)
    sign(book, 1, 2)
    book.close()
    file = tmp_path / "receipts.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes()[:-5])
    (kept_receipt,) = (reopened_book := opened(tmp_path)).unsent()
    assert kept_receipt.receipt.number == 1
    assert [receipt.receipt.number for receipt in sign(reopened_book, 3)] == [1, 2]
    reopened_book.close()
    assert [receipt.receipt.number for receipt in opened(tmp_path).unsent()] == [1, 2]


def test_only_the_servers_countersignature_counts(tmp_path: Path) -> None:
    book = opened(tmp_path)
    sent = sign(book, 1)
    book.take(answer(*sent, signer=Signer(Wallet("stranger").key)))
    assert book.unsent() == sent
    book.take(answer(*sent))
    assert book.unsent() == ()
    book.close()
    assert not opened(tmp_path).has_pending


def test_one_heartbeat_carries_a_bounded_number(tmp_path: Path) -> None:
    book = opened(tmp_path)
    sent = sign(book, *range(MOST_RECEIPTS + 5))
    assert len(sent) == MOST_RECEIPTS
    book.take(answer(*sent))
    assert [receipt.receipt.number for receipt in book.unsent()] == [
        MOST_RECEIPTS + number for number in range(1, 6)
    ]


def test_another_key_or_server_starts_a_chain_that_says_so(tmp_path: Path) -> None:
    first = sign(opened(tmp_path), 1)
    other = NodeKey(Wallet("another node key").key)
    (moved,) = sign(opened(tmp_path, other), 2)
    assert (moved.receipt.starts, moved.receipt.number) == ("moved", 1)
    assert moved.receipt.chain != first[0].receipt.chain
    (moved_receipt,) = sign(opened(tmp_path, other, Wallet("another server").address), 3)
    assert (moved_receipt.receipt.starts, moved_receipt.receipt.number) == ("moved", 1)


@pytest.mark.parametrize("refusal", ["foreign", "repeated"])
def test_a_receipt_that_the_server_never_takes_is_left_out(tmp_path: Path, refusal: str) -> None:
    book = opened(tmp_path)
    first, _, third = sign(book, 1, 2, 3)
    book.take(ReceiptsAnswer(answer(first).countersigned, 2, refusal, "Because."))
    book.flush()
    (next_receipt,) = book.unsent()
    assert next_receipt.receipt.attempt_id == third.receipt.attempt_id
    assert (next_receipt.receipt.number, next_receipt.receipt.starts) == (1, "refused")


def test_a_server_that_takes_no_receipts_gets_none(tmp_path: Path) -> None:
    book = opened(tmp_path, server="")
    assert sign(book, 1) == () and not book.has_pending
    assert not (tmp_path / "receipts.jsonl").exists()


def test_an_earlier_server_gets_none_that_were_signed_before(tmp_path: Path) -> None:
    """It was rolled back, and would refuse the heartbeat."""
    heartbeat = Heartbeat(receipts=sign(opened(tmp_path), 1))
    assert for_earlier_server(heartbeat) == Heartbeat()


def test_parts_of_an_attempt_are_counted_also_after_a_kill(tmp_path: Path) -> None:
    book = opened(tmp_path)
    book.sign([claim(1, is_last=False), claim(1, is_last=False)])
    book.close()
    book = opened(tmp_path)
    sign(book, 1)
    assert [receipt.receipt.part for receipt in book.unsent()] == [0, 1, 2]


def test_a_large_file_is_continued_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_book, "_MOST_BYTES", 10_000)
    book = opened(tmp_path)
    for number in range(30):
        book.take(answer(*sign(book, number)))
    assert (tmp_path / "receipts.old.jsonl").exists()
    assert (tmp_path / "receipts.jsonl").stat().st_size < 12_000
    book.close()
    book = opened(tmp_path)
    # The last receipt is sent again, which changes nothing, and the chain goes on.
    assert sign(book, 99)[-1].receipt.number == 31
    # A server that lacks some of them gets what the two files have.
    book.take(ReceiptsAnswer((), 29, "gap", ""))
    book.flush()
    assert [receipt.receipt.number for receipt in book.unsent()] == [29, 30, 31]
    # And a new chain, if they have it no longer.
    book.take(ReceiptsAnswer((), 1, "gap", ""))
    book.flush()
    assert {receipt.receipt.starts for receipt in book.unsent()} == {"refused", ""}
