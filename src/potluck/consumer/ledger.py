"""The ledger: what an account has, and every movement of it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport
from potluck.model.credit import MICRO, EntryKind
from potluck.wire import routes
from potluck.wire.identity import Me
from potluck.wire.ledger import LedgerEntry, LedgerPage, LedgerSummary, LineBy


class Balance(Struct, frozen=True):
    """What there is to spend, and what is set aside for attempts that live."""

    available_micro: int
    held_micro: int

    @property
    def available(self) -> float:
        """In credits, for people; sums are made of `available_micro`."""
        return self.available_micro / MICRO

    @property
    def held(self) -> float:
        return self.held_micro / MICRO


class Ledger:
    """Of one account at one server. Amounts are whole numbers of millionths of a credit."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def balance(self) -> Balance:
        """What there is now."""
        me = ask(self._transport, routes.ME, Me)
        return Balance(me.available_micro, me.held_micro)

    def entries(
        self,
        kinds: Sequence[EntryKind] = (),
        *,
        task_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[LedgerEntry]:
        """Movements, newest first, asked for in pages as far as somebody reads.

        Only those of these kinds, about that task, since and before then.
        """
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
        """One page of them; `next_cursor` of the answer asks for the older ones."""
        query = {
            "cursor": cursor,
            "kind": tuple(kinds) or None,
            "task_id": task_id,
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
            "limit": limit,
        }
        return ask(self._transport, routes.LEDGER, LedgerPage, query=query)

    def summary(
        self,
        by: LineBy = LineBy.DAY,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> LedgerSummary:
        """The balance, and what came and went by day or by task; in the last 30 days."""
        query = {
            "by": by,
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
        }
        return ask(self._transport, routes.LEDGER_SUMMARY, LedgerSummary, query=query)
