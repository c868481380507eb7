"""Receipts: what nodes signed and the server countersigned."""

import hashlib
from collections.abc import Iterator

import msgspec

from potluck.consumer.http.transport import Transport, call_api, iter_pages
from potluck.model.error import Unavailable
from potluck.wire import routes
from potluck.wire.signing.receipt import (
    MOST_EXPORTED,
    ExportEnd,
    ReceiptPage,
    ReceiptSide,
    ReceiptState,
    ReceiptStates,
    SignedReceipt,
    receipt_digest,
)


class ReceiptExport(msgspec.Struct, frozen=True):
    lines: tuple[bytes, ...]
    receipts: int
    next_after: int | None  # if there are more


class Receipts:
    """The receipts of an account: of its machines (`provider`), or of its tasks (`consumer`)."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def attempts(self, side: ReceiptSide = ReceiptSide.PROVIDER) -> Iterator[ReceiptState]:
        """Ended attempts, newest first, and which of them have receipts."""
        for page in iter_pages(
            self._transport, routes.LIST_RECEIPTS, ReceiptStates, {"side": side}
        ):
            yield from page.attempts

    def page(
        self,
        side: ReceiptSide = ReceiptSide.PROVIDER,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ReceiptStates:
        """A page of `attempts`; pass `next_cursor` to get older ones."""
        query = {"side": side, "cursor": cursor, "limit": limit}
        return call_api(self._transport, routes.LIST_RECEIPTS, ReceiptStates, query=query)

    def signed(
        self, side: ReceiptSide = ReceiptSide.PROVIDER, node_id: str | None = None
    ) -> Iterator[SignedReceipt]:
        """Receipts with both signatures, in the order in which the server took them."""
        for page in self._pages(side, node_id):
            yield from page.receipts

    def export(
        self,
        side: ReceiptSide = ReceiptSide.PROVIDER,
        node_id: str | None = None,
        after: int = 0,
        most: int = MOST_EXPORTED,
    ) -> "ReceiptExport":
        """At most so many receipts, as JSON lines that `potluck receipts verify` checks; the last
        line is signed by the server. `next_after` of the export begins the next one.

        Raises Unavailable if receipts were added out of order meanwhile: export again.
        """
        lines, digest = list[bytes](), hashlib.sha256()
        last, is_complete = after, True
        for page in self._pages(side, node_id, after):
            if len(lines) + len(page.receipts) > most:
                is_complete = False
                break
            for signed in page.receipts:
                digest.update(receipt_digest(signed.receipt))
                lines.append(msgspec.json.encode(signed))
            last = max(last, page.last)
        query = {"side": side, "node_id": node_id, "after": after, "last": last}
        end = call_api(self._transport, routes.END_RECEIPTS, ExportEnd, query=query)
        if end.digest != digest.hexdigest():
            raise Unavailable("Receipts were added meanwhile.", "Export them again.")
        return ReceiptExport(
            (*lines, msgspec.json.encode(end)), len(lines), None if is_complete else last
        )

    def _pages(
        self, side: ReceiptSide, node_id: str | None, after: int = 0
    ) -> Iterator[ReceiptPage]:
        query = {"side": side, "node_id": node_id}
        return iter_pages(
            self._transport, routes.EXPORT_RECEIPTS, ReceiptPage, query, after or None
        )
