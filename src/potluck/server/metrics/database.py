"""How long statements take, and how busy the connection pool is."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from potluck.local.metrics.registry import MetricRegistry
from potluck.server.metrics import definitions as names
from potluck.store.database import Database
from potluck.store.sql_files import statement_names

# The words that the driver begins its own statements with.
_TRANSACTION: Final = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


class _StatementSum:
    __slots__ = ("count", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.seconds = 0.0


class StatementTimes(Collector):
    """Sums by statement, without locks as in `request_times.py`: a request has up to twenty."""

    def __init__(self) -> None:
        self._by_text = {text: _StatementSum(name) for text, name in statement_names().items()}
        self._transaction, self._other = _StatementSum("transaction"), _StatementSum("other")

    def add(self, text: str, seconds: float) -> None:
        total = self._by_text.get(text)
        if total is None:
            total = self._transaction if text.startswith(_TRANSACTION) else self._other
        total.count += 1
        total.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """A statement appears when it has run."""
        metric = names.STATEMENTS
        family = SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
        for total in (*self._by_text.values(), self._transaction, self._other):
            if total.count:
                family.add_metric([total.name], total.count, total.seconds)
        yield family


class DatabaseMetrics:
    """Observes a database."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._statements = StatementTimes()
        registry.register(self._statements)
        self._waits = registry.counter(names.CONNECTION_WAITS)
        self._wait_seconds = registry.counter(names.CONNECTION_WAIT_SECONDS)
        self._size = registry.gauge(names.CONNECTIONS)
        self._used = registry.gauge(names.CONNECTIONS_USED)
        self.observe_statement = self._statements.add

    def watch(self, database: Database) -> None:
        """Reads the state of its pool whenever metrics are rendered."""
        self._size.set(database.size)
        self._used.set_function(lambda: database.used)

    def observe_wait(self, seconds: float) -> None:
        self._waits.inc()
        self._wait_seconds.inc(seconds)
