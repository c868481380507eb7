"""Checks exported receipts without a server: signatures, chains, order and completeness.

What has to be known is who should have signed: the address of the server, and those of the nodes'
keys. Without them a file is compared with the addresses that it names itself.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from potluck.model.decode_errors import plain_message
from potluck.wire.signing.address import checksummed
from potluck.wire.signing.receipt import (
    NO_HASH,
    ExportEnd,
    Receipt,
    ReceiptSide,
    SignedReceipt,
    countersignature_digest,
    export_end_digest,
    receipt_digest,
)
from potluck.wire.signing.signature import recover

T = TypeVar("T")

# The charge is for the time up to when the server decided, a moment after the end that it notes.
_TOLERANCE_MS = 60_000
_MS_PER_HOUR = 3_600_000
_receipt_decoder = msgspec.json.Decoder(SignedReceipt)
_end_decoder = msgspec.json.Decoder(ExportEnd)


class BadReceipt(Struct, frozen=True):
    """The first line that is wrong, and why."""

    line: int
    problem: str


class ReceiptChainFound(Struct, frozen=True):
    node_key: str
    node_id: str
    chain: str
    first: int
    last: int
    starts: str  # why the node started it; empty if the file begins later
    of_node: int  # 1 for the first chain of the node


class ReceiptCheck(Struct, frozen=True):
    """The result. Sums are over attempts: the last receipt of each counts."""

    receipts: int
    attempts: int
    worked_ms: int  # as the nodes signed it
    measured_ms: int  # as the server signed it
    charged_micro: int
    held_back_micro: int
    server: str
    node_keys: list[str]
    chains: list[ReceiptChainFound]
    bad: BadReceipt | None = None

    @property
    def is_good(self) -> bool:
        return self.bad is None


class _Wrong(Exception):
    """Says what is wrong with a line."""


def check_receipts(
    lines: Iterable[bytes], server: str | None = None, node_keys: Sequence[str] = ()
) -> ReceiptCheck:
    """Checks an export. Raises InvalidInput if an address is none."""
    checker = _Checker(
        None if server is None else checksummed(server), {checksummed(key) for key in node_keys}
    )
    bad: BadReceipt | None = None
    try:
        checker.take_all(lines)
    except _Wrong as wrong:
        bad = checker.first_bad(str(wrong))
    return checker.result(bad)


class _Checker:
    def __init__(self, server: str | None, node_keys: set[str]) -> None:
        self._server = server
        self._node_keys = node_keys
        self._heads: dict[str, tuple[Receipt, str]] = {}  # by chain: the last one and its digest
        self._firsts: dict[str, SignedReceipt] = {}
        # Where a chain breaks first. A consumer sees the receipts of their own tasks, and so only
        # parts of chains: the end line tells.
        self._gap: BadReceipt | None = None
        self._line = 0
        self._attempts: dict[str, SignedReceipt] = {}
        self._digest = hashlib.sha256()
        self._receipts = 0
        self._end: ExportEnd | None = None

    def take_all(self, lines: Iterable[bytes]) -> None:
        """Raises _Wrong for the first line that is bad."""
        for line in lines:
            self._line += 1
            if line.strip():
                self._take(line)
        self._line += 1
        if self._end is None:
            raise _Wrong("The end line is missing: receipts may be missing before it, too.")

    def first_bad(self, problem: str) -> BadReceipt:
        """A break of a chain comes before whatever follows from it."""
        return self._gap or BadReceipt(self._line, problem)

    def _take(self, line: bytes) -> None:
        if self._end is not None:
            raise _Wrong("It comes after the end line.")
        if line.lstrip().startswith(b'{"receipt"'):
            self._take_receipt(_decode(_receipt_decoder, line))
        else:
            self._take_end(_decode(_end_decoder, line))

    def result(self, bad: BadReceipt | None) -> ReceiptCheck:
        last = self._attempts.values()
        return ReceiptCheck(
            receipts=self._receipts,
            attempts=len(self._attempts),
            worked_ms=sum(signed.receipt.worked_ms for signed in last),
            measured_ms=sum(signed.countersignature.measured_ms for signed in last),
            charged_micro=sum(signed.countersignature.charged_micro for signed in last),
            held_back_micro=sum(signed.countersignature.held_back_micro for signed in last),
            server=self._server or "",
            node_keys=sorted({signed.receipt.node_key for signed in self._firsts.values()}),
            chains=[self._found(chain) for chain in self._firsts],
            bad=bad,
        )

    def _found(self, chain: str) -> ReceiptChainFound:
        first, (last, _) = self._firsts[chain], self._heads[chain]
        return ReceiptChainFound(
            last.node_key,
            last.node_id,
            chain,
            first.receipt.number,
            last.number,
            first.receipt.starts,
            first.countersignature.chain_of_node,
        )

    def _take_receipt(self, signed: SignedReceipt) -> None:
        raw = receipt_digest(signed.receipt)
        digest = raw.hex()
        self._check_signatures(signed, raw)
        self._check_chain(signed.receipt, digest)
        self._check_attempt(signed)
        self._heads[signed.receipt.chain] = (signed.receipt, digest)
        self._firsts.setdefault(signed.receipt.chain, signed)
        self._attempts[signed.receipt.attempt_id] = signed
        self._digest.update(raw)
        self._receipts += 1

    def _check_signatures(self, signed: SignedReceipt, digest: bytes) -> None:
        receipt, accepted = signed.receipt, signed.countersignature
        signer = _recover(digest, signed.node_signature)
        if signer != checksummed(receipt.node_key):
            raise _Wrong("It was changed, or not signed by the node key that it names.")
        if self._node_keys and receipt.node_key not in self._node_keys:
            raise _Wrong(f"It is signed by the node key {receipt.node_key}, not by one you named.")
        self._check_server(receipt.server)
        if accepted.receipt != digest.hex():
            raise _Wrong("The countersignature is for another receipt.")
        if _recover(countersignature_digest(accepted), signed.server_signature) != self._server:
            raise _Wrong("The countersignature was changed, or was not made by the server.")

    def _check_server(self, server: str) -> None:
        self._server = self._server or checksummed(server)
        if checksummed(server) != self._server:
            raise _Wrong(f"It names the server {server}, not {self._server}.")

    def _check_chain(self, receipt: Receipt, digest: str) -> None:
        head = self._heads.get(receipt.chain)
        if receipt.number == 1 and (receipt.previous != NO_HASH or not receipt.starts):
            raise _Wrong("It is the first of its chain, but names an earlier one.")
        if head is None:
            return
        last, last_digest = head
        if receipt.number <= last.number:
            same = "a repetition" if digest == last_digest else "out of order, or a repetition"
            raise _Wrong(
                f"Receipt {receipt.number} comes after receipt {last.number}: it is {same}."
            )
        if receipt.number > last.number + 1:
            first, past = last.number + 1, receipt.number - 1
            missing = (
                f"Receipts {first} to {past} of its chain are"
                if first < past
                else f"Receipt {first} of its chain is"
            )
            problem = f"{missing} missing before it."
            self._gap = self._gap or BadReceipt(self._line, problem)
        elif receipt.previous != last_digest:
            raise _Wrong("It does not follow the receipt before it: its chain has a fork.")

    def _check_attempt(self, signed: SignedReceipt) -> None:
        receipt, accepted = signed.receipt, signed.countersignature
        before = self._attempts.get(receipt.attempt_id)
        if before is not None and before.receipt.is_last:
            raise _Wrong(f"{receipt.attempt_id} already had its last receipt.")
        if receipt.price_micro_per_hour != accepted.price_micro_per_hour:
            raise _Wrong("The node and the server signed different prices.")
        most_ms = accepted.measured_ms + _TOLERANCE_MS
        if accepted.charged_micro > accepted.price_micro_per_hour * most_ms // _MS_PER_HOUR:
            raise _Wrong("More was charged than the price for the time.")
        if accepted.held_back_micro > accepted.charged_micro:
            raise _Wrong("More was held back than charged.")

    def _take_end(self, end: ExportEnd) -> None:
        self._check_server(end.server)
        if _recover(export_end_digest(end), end.server_signature) != self._server:
            raise _Wrong("The end line was changed, or was not signed by the server.")
        if end.receipts != self._receipts:
            has = f"the file has {self._receipts}"
            raise _Wrong(f"The server exported {end.receipts} receipts, and {has}.")
        if end.digest != self._digest.hexdigest():
            raise _Wrong("The receipts are not those that the server exported, or not in order.")
        if self._gap is not None and end.scope is ReceiptSide.PROVIDER:
            raise _Wrong(self._gap.problem)
        self._end = end


def _decode(decoder: "msgspec.json.Decoder[T]", line: bytes) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _Wrong(f"It is not a receipt: {plain_message(str(error))}") from error


def _recover(digest: bytes, signature: str) -> str | None:
    try:
        return recover(digest, bytes.fromhex(signature[2:]))
    except ValueError:  # an odd number of digits
        return None
