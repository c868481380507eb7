"""All tables, the clock of the database, and one transaction at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from potluck.simulate.store import schema
from potluck.simulate.store.rows import Log, Row, Table

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
# Older than everything; '-infinity' in PostgreSQL.
NEVER = datetime.min.replace(tzinfo=UTC)


class Data:
    """Transactions come one at a time: what PostgreSQL's locks and guards make of several at once
    must be what some order of them would have made, and the proof shows it.
    """

    def __init__(self) -> None:
        self.now = BEGINNING
        self.log = Log()
        self._numbers: dict[str, int] = {}
        self._is_busy = False
        shapes = schema.shapes(lambda: self.now, self.log.transaction_id, self._number)
        for name, shape in shapes.items():
            self.log.tables[name] = Table(name, shape, self.log)
        self.accounts = self.log.tables["accounts"]
        self.balances = self.log.tables["balances"]
        self.node_keys = self.log.tables["node_keys"]
        self.nodes = self.log.tables["nodes"]
        self.devices = self.log.tables["devices"]
        self.wishes = self.log.tables["wishes"]
        self.bindings = self.log.tables["bindings"]
        self.contests = self.log.tables["contests"]
        self.lost_contests = self.log.tables["lost_contests"]
        self.tasks = self.log.tables["tasks"]
        self.dependencies = self.log.tables["dependencies"]
        self.ended_tasks = self.log.tables["ended_tasks"]
        self.attempts = self.log.tables["attempts"]
        self.attempt_devices = self.log.tables["attempt_devices"]
        self.failed_items = self.log.tables["failed_items"]
        self.ledger_entries = self.log.tables["ledger_entries"]
        self.events = self.log.tables["events"]
        self.event_head = self.log.tables["event_head"]
        self.leader = self.log.tables["leader"]
        self.audit = self.log.tables["audit"]
        self.audit_head = self.log.tables["audit_head"]
        self.leader.insert({"led_until": NEVER, "renewed_at": NEVER, "expires_at": NEVER})
        self.audit_head.insert({})
        self.event_head.insert({})

    def ahead(self, lasting: timedelta | None) -> datetime | None:
        """`now() + $n::interval`, which is null for null."""
        return None if lasting is None else self.now + lasting

    def the_leader(self) -> Row:
        (row,) = self.leader.all()
        return row

    def is_led_by(self, holder: str, term: int) -> bool:
        row = self.the_leader()
        is_same = row["holder"] == holder and row["term"] == term
        return is_same and bool(row["expires_at"] > self.now)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it, or nothing. Nobody else comes between, and nobody waits inside of one."""
        assert not self._is_busy, "somebody waited inside of a transaction"
        self._is_busy = True
        self.log.begin()
        try:
            yield
        except BaseException:
            self.log.undo()
            raise
        finally:
            self._is_busy = False

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        mark = len(self.log.written)
        try:
            yield
        except BaseException:
            self.log.undo(mark)
            raise

    def _number(self, sequence: str) -> int:
        """As in PostgreSQL, a number that was drawn is gone, also if its transaction is undone."""
        self._numbers[sequence] = self._numbers.get(sequence, 0) + 1
        return self._numbers[sequence]
