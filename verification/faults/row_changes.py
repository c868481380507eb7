"""The row changes of transactions, recorded by triggers of the history's database."""

from typing import Any

import msgspec
from msgspec import Struct

from verification.faults.sessions import Sessions

_TAKE = "DELETE FROM clock.row_changes RETURNING id, name, before, after"
Row = dict[str, Any]


class RowChange(Struct, frozen=True):
    """A row before and after a statement; `before` is None if it was inserted."""

    table: str
    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        row = self.after or self.before
        assert row is not None, "something was written"
        return row


def take_row_changes(sessions: Sessions) -> list[RowChange]:
    """All changes committed since the last call, in order."""
    return [
        RowChange(row["name"], _decoded(row["before"]), _decoded(row["after"]))
        for row in sorted(sessions.fetch(_TAKE), key=lambda row: row["id"])
    ]


def net_changes(changes: list[RowChange], table: str) -> list[tuple[Row | None, Row]]:
    """Each changed row of a table, before all changes and after."""
    before: dict[str, Row | None] = {}
    after: dict[str, Row | None] = {}
    for change in changes:
        if change.table == table:
            before.setdefault(change.row["id"], change.before)
            after[change.row["id"]] = change.after
    return [(before[key], row) for key, row in after.items() if row is not None]


def _decoded(data: bytes | None) -> Row | None:
    return None if data is None else msgspec.json.decode(data, type=Row)
