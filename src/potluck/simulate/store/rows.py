"""Tables of rows, with what PostgreSQL promises about them: keys, checks, references, and undoing.

A row is never changed in place: an update puts a new one there, so that whoever has read a row
keeps what was true then.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import asyncpg
from msgspec import Struct

Row = dict[str, Any]
Key = Hashable


class Unique(Struct, frozen=True):
    """No two rows agree in these columns; nulls never agree. Perhaps of some rows only."""

    name: str
    columns: tuple[str, ...]
    where: Callable[[Row], bool] | None = None

    def key(self, row: Row) -> Key | None:
        if self.where is not None and not self.where(row):
            return None
        values = tuple(row[column] for column in self.columns)
        return None if None in values else values


class Index(Struct, frozen=True):
    """Rows by one column, perhaps of some rows only: so that nothing walks through all."""

    column: str
    where: Callable[[Row], bool] | None = None


class Shape(Struct, frozen=True):
    """What a CREATE TABLE says."""

    key: tuple[str, ...]
    columns: Mapping[str, Any]  # with their defaults; a callable is asked for each row
    uniques: tuple[Unique, ...] = ()
    checks: Mapping[str, Callable[[Row], bool]] = {}
    references: Mapping[str, str] = {}
    indexes: Mapping[str, Index] = {}
    derived: Mapping[str, Callable[[Row], Any]] = {}
    # An update that changes one of these marks the row; None is any update.
    marked_by: tuple[str, ...] | None = ()


class Table:
    def __init__(self, name: str, shape: Shape, log: "Log") -> None:
        self.name = name
        self.shape = shape
        self._log = log
        self._rows: dict[Key, Row] = {}
        self._unique: dict[str, dict[Key, Key]] = {each.name: {} for each in shape.uniques}
        self._indexed: dict[str, dict[Any, dict[Key, Row]]] = {name: {} for name in shape.indexes}
        self._is_marked = "changed" in shape.columns

    def __len__(self) -> int:
        return len(self._rows)

    def all(self) -> Iterator[Row]:
        return iter(list(self._rows.values()))

    def get(self, key: Key) -> Row | None:
        return self._rows.get(key)

    def of(self, index: str, value: Hashable) -> list[Row]:
        return list(self._indexed[index].get(value, {}).values())

    def values_of(self, index: str) -> Iterable[Any]:
        return list(self._indexed[index])

    def find(self, unique: str, *values: Hashable) -> Row | None:
        key = self._unique[unique].get(values)
        return None if key is None else self._rows[key]

    def insert(self, values: Row) -> Row:
        row = {
            column: value() if callable(value) else value
            for column, value in self.shape.columns.items()
            if column not in values
        }
        row.update(values)
        key = self._key(row)
        if key in self._rows:
            raise asyncpg.UniqueViolationError(f"{self.name}_pkey")
        self._write(key, None, row)
        # Last, as PostgreSQL does; whoever raises is undone.
        for column, table in self.shape.references.items():
            if row[column] is not None and self._log.tables[table].get(row[column]) is None:
                raise asyncpg.ForeignKeyViolationError(f"{self.name}.{column}")
        return row

    def update(self, row: Row, changes: Row) -> Row:
        """The row as it is now, which must still be there."""
        key = self._key(row)
        before = self._rows[key]
        after = {**before, **changes}
        if self._is_marked and self._marks(before, after):
            after["changed"] = self._log.transaction_id()
        return self._write(key, before, after)

    def delete(self, row: Row) -> None:
        key = self._key(row)
        self._log.wrote(self, key, self._rows[key])
        self._put(key, None)

    def restore(self, key: Key, before: Row | None) -> None:
        """As it was, when a transaction is undone."""
        self._put(key, before)

    def _marks(self, before: Row, after: Row) -> bool:
        watched = self.shape.marked_by
        return watched is None or any(before[column] != after[column] for column in watched)

    def _key(self, row: Row) -> Key:
        columns = self.shape.key
        return row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)

    def _write(self, key: Key, before: Row | None, row: Row) -> Row:
        for column, derive in self.shape.derived.items():
            row[column] = derive(row)
        for name, holds in self.shape.checks.items():
            if not holds(row):
                raise asyncpg.CheckViolationError(f"{self.name}_{name}")
        for unique in self.shape.uniques:
            claimed = unique.key(row)
            if claimed is not None and self._unique[unique.name].get(claimed, key) != key:
                raise asyncpg.UniqueViolationError(unique.name)
        self._log.wrote(self, key, before)
        self._put(key, row)
        return row

    def _put(self, key: Key, row: Row | None) -> None:
        before = self._rows.get(key)
        if before is not None:
            self._forget(key, before)
        if row is None:
            del self._rows[key]
            return
        self._rows[key] = row
        for unique in self.shape.uniques:
            claimed = unique.key(row)
            if claimed is not None:
                self._unique[unique.name][claimed] = key
        for name, index in self.shape.indexes.items():
            if index.where is None or index.where(row):
                self._indexed[name].setdefault(row[index.column], {})[key] = row

    def _forget(self, key: Key, row: Row) -> None:
        for unique in self.shape.uniques:
            claimed = unique.key(row)
            if claimed is not None:
                self._unique[unique.name].pop(claimed, None)
        for name, index in self.shape.indexes.items():
            if index.where is None or index.where(row):
                rows = self._indexed[name][row[index.column]]
                del rows[key]
                if not rows:
                    del self._indexed[name][row[index.column]]


class Log:
    """What the open transaction wrote, so that it can be undone, and seen by whoever checks."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.written: list[tuple[Table, Key, Row | None]] = []
        self._next_id = 1000
        self._id: int | None = None

    def begin(self) -> None:
        self.written = []
        self._id = None

    def wrote(self, table: Table, key: Key, before: Row | None) -> None:
        self.written.append((table, key, before))

    def undo(self, mark: int = 0) -> None:
        """Back to where the log was so long; an index keeps no order that anybody relies on."""
        while len(self.written) > mark:
            table, key, before = self.written.pop()
            table.restore(key, before)

    def transaction_id(self) -> int:
        """Given at the first write, as PostgreSQL does; never given again."""
        if self._id is None:
            self._id, self._next_id = self._next_id, self._next_id + 1
        return self._id

    def snapshot(self) -> str:
        """What is visible: everything before the next id. Transactions here come one at a time."""
        bound = self._next_id if self._id is None else self._id
        return f"{bound}:{self._next_id}:" + ("" if self._id is None else str(self._id))
