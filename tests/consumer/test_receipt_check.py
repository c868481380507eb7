"""What an export of receipts proves without a server, and what a change of it shows."""

from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest
from msgspec.structs import replace

from potluck.consumer.receipt_check import ReceiptCheck, check_receipts
from potluck.model.error import InvalidInput
from potluck.model.lease import AttemptState
from potluck.wire.signing.receipt import (
    NO_HASH,
    Countersignature,
    ExportEnd,
    Receipt,
    ReceiptSide,
    SignedReceipt,
    countersignature_digest,
    export_end_digest,
    receipt_digest,
)
from potluck.wire.signing.signature import sign
from tests.wallets import Wallet

SERVER, NODE = Wallet("the server"), Wallet("a node key")
CHAIN = "ab" * 16
CREDIT = 1_000_000
ACCOUNT = "account_01j00000000000000000000000"


def countersigned(receipt: Receipt, **changes: object) -> SignedReceipt:
    digest = receipt_digest(receipt)
    accepted = Countersignature(
        receipt=digest.hex(),
        chain_of_node=1,
        adoption=0,
        slices=0,
        state=AttemptState.SUCCEEDED,
        reason="completed",
        price_micro_per_hour=receipt.price_micro_per_hour,
        measured_ms=60_000,
        charged_micro=60 * CREDIT,
        held_back_micro=0,
        fee_basis_points=100,
        signed_at_ms=100_000,
    )
    accepted = replace(accepted, **changes)
    return SignedReceipt(
        receipt,
        sign(NODE.key, digest),
        accepted,
        sign(SERVER.key, countersignature_digest(accepted)),
    )


def a_receipt(number: int, previous: str = NO_HASH, **changes: object) -> Receipt:
    receipt = Receipt(
        server=SERVER.address,
        node_key=NODE.address,
        node_id="node_01j00000000000000000000000",
        chain=CHAIN,
        number=number,
        previous=previous,
        starts="" if number > 1 else "first",
        attempt_id=f"attempt_01j0000000000000000000000{number}",
        task_id="task_01j00000000000000000000000",
        account_id=ACCOUNT,
        devices=("device_01j00000000000000000000000:1000",),
        part=0,
        is_last=True,
        started_at_ms=1_000,
        ended_at_ms=61_000,
        worked_ms=60_000,
        reason="completed",
        price_micro_per_hour=3600 * CREDIT,
        result_sha256=NO_HASH,
    )
    return replace(receipt, **changes)


def ended(receipts: list[SignedReceipt], side: ReceiptSide = ReceiptSide.PROVIDER) -> ExportEnd:
    digest = sha256(
        b"".join(receipt_digest(signed_receipt.receipt) for signed_receipt in receipts)
    ).hexdigest()
    end = ExportEnd(SERVER.address, side, ACCOUNT, len(receipts), digest, 200_000)
    return replace(end, server_signature=sign(SERVER.key, export_end_digest(end)))


def chain_of(count: int) -> list[SignedReceipt]:
    receipts: list[SignedReceipt] = []
    previous = NO_HASH
    for number in range(1, count + 1):
        receipts.append(countersigned(a_receipt(number, previous)))
        previous = receipt_digest(receipts[-1].receipt).hex()
    return receipts


GOOD = chain_of(4)


def check(
    receipts: list[SignedReceipt], end: ExportEnd | None = None, **addresses: object
) -> ReceiptCheck:
    lines = [msgspec.json.encode(signed_receipt) for signed_receipt in receipts]
    if end is not None:
        lines.append(msgspec.json.encode(end))
    return check_receipts(lines, **addresses)  # type: ignore[arg-type]


def test_a_whole_export_is_good_and_summed() -> None:
    report = check(GOOD, ended(GOOD), server=SERVER.address.lower(), node_keys=[NODE.address])
    assert report.is_good, report.bad
    assert (report.receipts, report.attempts) == (4, 4)
    assert (report.worked_ms, report.measured_ms) == (240_000, 240_000)
    assert (report.charged_micro, report.held_back_micro) == (240 * CREDIT, 0)
    assert (report.server, report.node_keys) == (SERVER.address, [NODE.address])


# Another value for each field, as someone would change it.
CHANGED: dict[str, object] = {
    "server": NODE.address,
    "node_key": SERVER.address,
    "node_id": "node_01j00000000000000000000001",
    "chain": "cd" * 16,
    "number": 9,
    "previous": "1" * 64,
    "starts": "moved",
    "attempt_id": "attempt_01j00000000000000000000009",
    "task_id": "task_01j00000000000000000000009",
    "account_id": "account_01j00000000000000000000009",
    "devices": ("device_01j00000000000000000000000:500",),
    "part": 1,
    "is_last": False,
    "started_at_ms": 0,
    "ended_at_ms": 62_000,
    "worked_ms": 61_000,
    "reason": "exit_status",
    "price_micro_per_hour": 3601 * CREDIT,
    "result_sha256": "2" * 64,
    "receipt": "3" * 64,
    "chain_of_node": 2,
    "adoption": 1,
    "slices": 1,
    "state": AttemptState.FAILED,
    "measured_ms": 61_000,
    "charged_micro": 61 * CREDIT,
    "held_back_micro": 1,
    "fee_basis_points": 101,
    "signed_at_ms": 100_001,
}


def test_every_field_has_another_value_here() -> None:
    fields = {*Receipt.__struct_fields__, *Countersignature.__struct_fields__}
    assert fields == set(CHANGED)


@pytest.mark.parametrize("field", Receipt.__struct_fields__)
def test_a_changed_field_of_a_receipt_is_found(field: str) -> None:
    receipt = replace(GOOD[1].receipt, **{field: CHANGED[field]})
    report = check([GOOD[0], replace(GOOD[1], receipt=receipt), *GOOD[2:]], ended(GOOD))
    assert report.bad is not None and report.bad.line == 2
    assert report.bad.problem == "It was changed, or not signed by the node key that it names."


@pytest.mark.parametrize("field", Countersignature.__struct_fields__)
def test_a_changed_field_of_a_countersignature_is_found(field: str) -> None:
    accepted = replace(GOOD[1].countersignature, **{field: CHANGED[field]})
    report = check([GOOD[0], replace(GOOD[1], countersignature=accepted), *GOOD[2:]], ended(GOOD))
    assert report.bad is not None and report.bad.line == 2
    assert "countersignature" in report.bad.problem


@pytest.mark.parametrize("field", ["server", "scope", "account_id", "receipts", "digest"])
def test_a_changed_field_of_the_end_is_found(field: str) -> None:
    other = {**CHANGED, "scope": ReceiptSide.CONSUMER, "receipts": 3, "digest": "4" * 64}
    report = check(GOOD, replace(ended(GOOD), **{field: other[field]}))
    assert report.bad is not None and report.bad.line == 5


def dropped(receipts: list[SignedReceipt]) -> list[SignedReceipt]:
    return [*receipts[:1], *receipts[2:]]


def swapped(receipts: list[SignedReceipt]) -> list[SignedReceipt]:
    return [receipts[0], receipts[2], receipts[1], receipts[3]]


def doubled(receipts: list[SignedReceipt]) -> list[SignedReceipt]:
    return [*receipts[:2], *receipts[1:]]


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        (dropped, 2, "Receipt 2 of its chain is missing before it."),
        (swapped, 2, "Receipt 2 of its chain is missing before it."),
        (doubled, 3, "Receipt 2 comes after receipt 2: it is a repetition."),
    ],
)
@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_missing_a_moved_and_a_repeated_receipt_are_found(
    change: Callable[[list[SignedReceipt]], list[SignedReceipt]],
    line: int,
    problem: str,
    is_hidden: bool,
) -> None:
    """Also if the server itself signed the end of such a file."""
    changed = change(GOOD)
    report = check(changed, ended(changed if is_hidden else GOOD))
    assert report.bad is not None
    assert (report.bad.line, report.bad.problem) == (line, problem)


def test_receipts_that_are_missing_at_the_end_are_found() -> None:
    bad = check(GOOD[:3], ended(GOOD)).bad
    assert bad is not None
    assert (bad.line, bad.problem) == (4, "The server exported 4 receipts, and the file has 3.")
    bad = check(GOOD).bad
    assert bad is not None
    assert bad.line == 5 and bad.problem.startswith("The end line is missing")
    bad = check([], None).bad
    assert bad is not None and bad.line == 1


def test_lines_after_the_end_line_are_refused() -> None:
    lines = [msgspec.json.encode(line) for line in (*GOOD, ended(GOOD), GOOD[0])]
    bad = check_receipts(lines).bad
    assert bad is not None and bad.problem == "It comes after the end line."


def test_a_consumer_has_parts_of_chains_and_still_misses_nothing() -> None:
    own_receipts = [GOOD[0], GOOD[3]]
    assert check(own_receipts, ended(own_receipts, ReceiptSide.CONSUMER)).is_good
    for changed in (own_receipts[:1], [GOOD[0], GOOD[2]]):
        bad = check(changed, ended(own_receipts, ReceiptSide.CONSUMER)).bad
        assert bad is not None
    bad = check(own_receipts[::-1], ended(own_receipts, ReceiptSide.CONSUMER)).bad
    assert bad is not None and bad.line == 2


def test_a_fork_is_found_although_both_have_signed_it() -> None:
    other = countersigned(a_receipt(2, "5" * 64))
    changed = [GOOD[0], other]
    bad = check(changed, ended(changed)).bad
    assert bad is not None
    assert bad.problem == "It does not follow the receipt before it: its chain has a fork."


def test_other_addresses_are_refused() -> None:
    stranger = Wallet("stranger").address
    for addresses in ({"server": stranger}, {"node_keys": [stranger]}):
        bad = check(GOOD, ended(GOOD), **addresses).bad
        assert bad is not None and bad.line == 1
    with pytest.raises(InvalidInput):
        check(GOOD, server="0x12")


def test_the_last_receipt_of_an_attempt_counts() -> None:
    first = countersigned(
        a_receipt(1, is_last=False, reason=""), charged_micro=20 * CREDIT, held_back_micro=CREDIT
    )
    follows = {
        "previous": receipt_digest(first.receipt).hex(),
        "attempt_id": first.receipt.attempt_id,
    }
    last = countersigned(a_receipt(2, **follows), charged_micro=50 * CREDIT)
    report = check([first, last], ended([first, last]))
    assert (report.attempts, report.charged_micro, report.held_back_micro) == (1, 50 * CREDIT, 0)
    third = countersigned(
        a_receipt(3, receipt_digest(last.receipt).hex(), attempt_id=first.receipt.attempt_id)
    )
    bad = check([first, last, third], ended([first, last, third])).bad
    assert bad is not None and "already had its last receipt" in bad.problem


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"charged_micro": 121 * CREDIT}, "More was charged than the price for the time."),
        ({"held_back_micro": 61 * CREDIT}, "More was held back than charged."),
        ({"price_micro_per_hour": 1}, "The node and the server signed different prices."),
    ],
)
def test_amounts_that_do_not_agree_are_found(changes: dict[str, object], problem: str) -> None:
    signed_receipt = countersigned(a_receipt(1), **changes)
    bad = check([signed_receipt], ended([signed_receipt])).bad
    assert bad is not None and bad.problem == problem


@pytest.mark.parametrize("line", [b"", b"x", b"{}", b'{"receipt":1}', b'{"receipt":{}}', b"\xff"])
def test_invalid_receipts_are_reported(line: bytes) -> None:
    lines = [msgspec.json.encode(GOOD[0]), b"\n", line or b"[]"]
    bad = check_receipts(lines).bad
    assert bad is not None and bad.line == 3 and bad.problem.startswith("It is not a receipt")
