"""The ledger: an account's balance and every entry that changed it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from potluck.consumer.http.transport import Transport, call_api
from potluck.model.credit import MICRO, EntryKind
from potluck.wire import routes
from potluck.wire.identity import Me
from potluck.wire.money.ledger import LedgerEntry, LedgerPage, LedgerSummary, LineBy


class Balance(Struct, frozen=True):
    """The credit that can be spent, and the credit held for running attempts."""

    available_micro: int
    held_micro: int

    @property
    def available(self) -> float:
        """In credits, for display; calculate with `available_micro`."""
        return self.available_micro / MICRO

    @property
    def held(self) -> float:
        return self.held_micro / MICRO


class Ledger:
    """The ledger of one account. Amounts are whole numbers of millionths of a credit."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def balance(self) -> Balance:
        """The present balance."""
        me = call_api(self._transport, routes.ME, Me)
        return Balance(me.available_micro, me.held_micro)

    def entries(
        self,
        kinds: Sequence[EntryKind] = (),
        *,
        task_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[LedgerEntry]:
        """Entries, newest first, filtered by kind, task and time; pages are fetched as needed."""
        cursor: int | None = None
        while True:
            page = self.page(cursor, kinds, task_id=task_id, since=since, until=until)
            yield from page.entries
            cursor = page.next_cursor
            if cursor is None:
                return

    def page(
        self,
        cursor: int | None = None,
        kinds: Sequence[EntryKind] = (),
        *,
        task_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> LedgerPage:
        """A page of entries, newest first; pass `next_cursor` to get older ones."""
        query = {
            "cursor": cursor,
            "kind": tuple(kinds) or None,
            "task_id": task_id,
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
            "limit": limit,
        }
        return call_api(self._transport, routes.LEDGER, LedgerPage, query=query)

    def summary(
        self,
        by: LineBy = LineBy.DAY,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> LedgerSummary:
        """The balance, and the sums by day or by task; of the last 30 days by default."""
        query = {
            "by": by,
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
        }
        return call_api(self._transport, routes.LEDGER_SUMMARY, LedgerSummary, query=query)
