"""The receipts of this node for one server: a file that only grows, and their chain.

A receipt is in the file before anything relies on it, so it survives kill -9, and on the disk
before it is sent: a chain that the server knows is never forgotten here. A line is a receipt that
the node key signed, or the server's countersignature of one. A torn last line is removed. After a
limit the file becomes `receipts.old.jsonl`; the server keeps all.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from threading import Lock

import msgspec
import structlog
from msgspec import Struct

from potluck.local.durable_files import write_all, write_atomically
from potluck.model.ids import AttemptId
from potluck.provider.server.node_key import NodeKey
from potluck.wire.signing.receipt import (
    MOST_RECEIPTS,
    NO_HASH,
    CountersignedReceipt,
    NodeSignedReceipt,
    Receipt,
    ReceiptsAnswer,
    countersignature_digest,
    receipt_digest,
)
from potluck.wire.signing.signature import is_signed_by

log = structlog.get_logger()

_FILE, _OLD_FILE = "receipts.jsonl", "receipts.old.jsonl"
# As many as the state machine remembers; the journal may repeat the end of one after a crash.
_REMEMBERED_ENDS = 4096
_MOST_BYTES = 16 * 2**20
# Why a chain starts.
FIRST = "first"  # nothing was signed in this data directory: new, reinstalled, or its file was lost
MOVED = "moved"  # another key, node or server signed before
REFUSED = "refused"  # the server refused to continue the chain before
# The server would refuse these in another chain, too.
_WORTHLESS = ("foreign", "repeated", "signature")


class ReceiptClaim(Struct, frozen=True):
    """What a receipt says of an attempt; the rest is its place in the chain."""

    attempt_id: AttemptId
    task_id: str
    account_id: str
    devices: tuple[str, ...]
    is_last: bool
    started_at_ms: int
    ended_at_ms: int
    worked_ms: int
    reason: str
    price_micro_per_hour: int
    result_sha256: str = NO_HASH


class _ChainOwner(Struct, frozen=True):
    server: str
    node_key: str
    node_id: str


class ReceiptBook:
    """Its methods may be called from several threads; all but `unsent` may wait for the disk."""

    def __init__(self, directory: Path, key: NodeKey) -> None:
        self._directory = directory
        self._key = key
        self._identity: _ChainOwner | None = None
        self._head: Receipt | None = None
        self._head_digest = NO_HASH
        self._pending: dict[str, NodeSignedReceipt] = {}  # by digest, in the order of the chain
        self._concluded: dict[str, None] = {}  # attempts with their last receipt, the newest
        self._parts: dict[str, int] = {}  # of attempts without it
        self._durable = 0  # of the pending ones
        self._is_refused = False
        self._descriptor = -1
        self._bytes = 0
        self._lock = Lock()

    def bind(self, server: str, node_id: str) -> None:
        """From now on receipts are for this server, which takes none if it is empty."""
        with self._lock:
            wanted = _ChainOwner(server, self._key.address, node_id) if server else None
            if wanted is None or wanted == self._identity:
                self._identity = wanted
                return
            if self._descriptor < 0:
                self._open()
            self._identity = wanted
            if self._head is not None and _identity_of(self._head) != wanted:
                self._pending.clear()
            self._durable = len(self._pending)

    def sign(self, claims: Sequence[ReceiptClaim]) -> None:
        """Adds a receipt for each to the chain, unless the attempt has its last one."""
        with self._lock:
            if self._identity is None:
                return
            self._append([claim for claim in claims if claim.attempt_id not in self._concluded])

    def flush(self) -> None:
        """Makes the pending ones durable, so that they can be sent."""
        with self._lock:
            if self._durable < len(self._pending):
                os.fsync(self._descriptor)
                self._durable = len(self._pending)

    def unsent(self) -> tuple[NodeSignedReceipt, ...]:
        """Those that the server has not countersigned, the oldest first, for one heartbeat."""
        if self._identity is None:
            return ()
        durable = min(self._durable, MOST_RECEIPTS)
        return tuple(list(self._pending.values())[:durable])

    @property
    def has_pending(self) -> bool:
        return self._identity is not None and bool(self._pending)

    def take(self, answer: ReceiptsAnswer) -> None:
        """Keeps the countersignatures, and starts another chain if the server refuses this one."""
        with self._lock:
            if self._identity is None:
                return
            valid = [receipt for receipt in answer.countersigned if self._is_valid(receipt)]
            if valid:
                self._write([msgspec.json.encode(receipt) for receipt in valid])
            self._durable = max(0, self._durable - len(valid))
            for receipt in valid:
                del self._pending[receipt.countersignature.receipt]
            if answer.refused == "gap":
                self._resend(answer.next_number)
            elif answer.refused:
                log.warning("receipt refused", refusal=answer.refused, detail=answer.detail)
                self._restart(skipped=int(answer.refused in _WORTHLESS))
            if self._bytes > _MOST_BYTES:
                self._rotate()

    def close(self) -> None:
        with self._lock:
            self._identity = None
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    def _why_start(self) -> str:
        """Why the next receipt starts a chain; empty if it continues one."""
        if self._is_refused:
            return REFUSED
        if self._head is None:
            return FIRST
        return "" if _identity_of(self._head) == self._identity else MOVED

    def _append(self, claims: Sequence[ReceiptClaim]) -> None:
        """Signs them in order. What cannot be written is not part of the chain."""
        assert self._identity is not None
        starts = self._why_start()
        head, digest = (None, NO_HASH) if starts else (self._head, self._head_digest)
        chain = secrets.token_hex(16) if head is None else head.chain
        number = 0 if head is None else head.number
        signed: dict[str, NodeSignedReceipt] = {}
        for claim in claims:
            number += 1
            receipt = Receipt(
                **msgspec.structs.asdict(self._identity),
                chain=chain,
                number=number,
                previous=digest,
                starts=starts if number == 1 else "",
                part=self._parts.get(claim.attempt_id, 0),
                **msgspec.structs.asdict(claim),
            )
            raw = receipt_digest(receipt)
            head, digest = receipt, raw.hex()
            signed[digest] = NodeSignedReceipt(receipt, self._key.sign_digest(raw))
            self._note(receipt)
        if not signed:
            return
        self._write([msgspec.json.encode(receipt) for receipt in signed.values()])
        self._pending |= signed
        self._is_refused = False
        self._head, self._head_digest = head, digest

    def _note(self, receipt: Receipt) -> None:
        """Counts the receipts of an attempt up to its last one."""
        self._parts[receipt.attempt_id] = receipt.part + 1
        if receipt.is_last:
            del self._parts[receipt.attempt_id]
            self._concluded[receipt.attempt_id] = None
        if len(self._concluded) > _REMEMBERED_ENDS:
            del self._concluded[next(iter(self._concluded))]

    def _is_valid(self, receipt: CountersignedReceipt) -> bool:
        """Whether it is by the server, and about a receipt that waits for it."""
        assert self._identity is not None
        if receipt.countersignature.receipt not in self._pending:
            return False
        digest = countersignature_digest(receipt.countersignature)
        is_theirs = is_signed_by(self._identity.server, digest, receipt.server_signature)
        if not is_theirs:
            log.warning(
                "a countersignature was not made by the server", server=self._identity.server
            )
        return is_theirs

    def _resend(self, number: int) -> None:
        """The server lacks receipts that it had: it was restored from a backup."""
        assert self._head is not None
        receipts = {
            signed.receipt.number: signed
            for signed in _receipts(self._directory)
            if signed.receipt.chain == self._head.chain and signed.receipt.number >= number
        }
        if number not in receipts:
            self._restart()
            return
        ordered = [receipts[place] for place in sorted(receipts)]
        self._durable = 0
        self._pending = {receipt_digest(receipt.receipt).hex(): receipt for receipt in ordered}

    def _restart(self, skipped: int = 0) -> None:
        """Signs what is pending again, in another chain."""
        waiting = list(self._pending.values())[skipped:]
        self._durable, self._pending, self._is_refused = 0, {}, True
        for receipt in reversed(waiting):
            self._parts[receipt.receipt.attempt_id] = receipt.receipt.part
        self._append([_claim(signed.receipt) for signed in waiting])

    def _open(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / _FILE
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(path, flags, 0o600)
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        os.ftruncate(self._descriptor, len(whole))
        self._bytes = len(whole)
        entries = [entry for line in whole.splitlines() if (entry := _decode(line)) is not None]
        digests = _digests([entry for entry in entries if isinstance(entry, NodeSignedReceipt)])
        for entry in entries:
            if isinstance(entry, CountersignedReceipt):
                self._pending.pop(entry.countersignature.receipt, None)
            else:
                self._read(entry, next(digests))

    def _read(self, signed: NodeSignedReceipt, digest: str) -> None:
        if self._head is not None and self._head.chain != signed.receipt.chain:
            self._pending.clear()  # signed again in this chain
        self._head, self._head_digest = signed.receipt, digest
        self._pending[digest] = signed
        self._note(signed.receipt)

    def _write(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        write_all(self._descriptor, data)
        self._bytes += len(data)

    def _rotate(self) -> None:
        """Continues in a new file that begins with the last receipt; there is always one."""
        if self._pending or self._head is None:
            return  # it is not so after one of the next answers
        path, old = self._directory / _FILE, self._directory / _OLD_FILE
        last = [signed for signed in _receipts(self._directory) if signed.receipt == self._head][
            -1:
        ]
        os.close(self._descriptor)
        old.unlink(missing_ok=True)
        old.hardlink_to(path)
        write_atomically(path, b"".join(msgspec.json.encode(receipt) + b"\n" for receipt in last))
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        self._bytes = 0


def _claim(receipt: Receipt) -> ReceiptClaim:
    return ReceiptClaim(**{name: getattr(receipt, name) for name in ReceiptClaim.__struct_fields__})


def _identity_of(receipt: Receipt) -> _ChainOwner:
    return _ChainOwner(receipt.server, receipt.node_key, receipt.node_id)


def _decode(line: bytes) -> NodeSignedReceipt | CountersignedReceipt | None:
    """None for a line that cannot be read."""
    is_receipt = line.startswith(b'{"receipt"')
    try:
        if is_receipt:
            return msgspec.json.decode(line, type=NodeSignedReceipt)
        return msgspec.json.decode(line, type=CountersignedReceipt)
    except msgspec.DecodeError:
        log.warning("a line of the receipts cannot be read", is_receipt=is_receipt)
        return None


def _digests(signed: Sequence[NodeSignedReceipt]) -> Iterator[str]:
    """Most are named by the next receipt: computing thousands of them would delay a start."""
    for current, following in zip_longest(signed, signed[1:]):
        after = None if following is None else following.receipt
        follows = after is not None and (after.chain, after.number) == (
            current.receipt.chain,
            current.receipt.number + 1,
        )
        yield after.previous if follows and after else receipt_digest(current.receipt).hex()


def _receipts(directory: Path) -> Iterator[NodeSignedReceipt]:
    for name in (_OLD_FILE, _FILE):
        path = directory / name
        for line in path.read_bytes().splitlines() if path.exists() else ():
            entry = _decode(line)
            if isinstance(entry, NodeSignedReceipt):
                yield entry
