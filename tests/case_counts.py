"""Counts of what many cases in one test came to, shown as a table at the end of the run."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_ROW = "tally"


@contextmanager
def counting_cases(request: pytest.FixtureRequest) -> Iterator["CaseCounts"]:
    """Failures are raised together at the end."""
    tally = CaseCounts(request)
    yield tally
    tally.end()


class CaseCounts:
    """`with tally("table row", "case"):` counts a case."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._properties = request.node.user_properties
        self._passed: Counter[str] = Counter()
        self._failed: dict[str, list[str]] = {}

    @contextmanager
    def __call__(self, row: str, case: str) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
            self._failed.setdefault(row, []).append(f"{case}: {error!r:.300}")
        else:
            self._passed[row] += 1

    def note(self, text: str) -> None:
        """A line of its own in the table."""
        self._properties.append((_ROW, text))

    def end(self) -> None:
        for row in sorted({*self._passed, *self._failed}):
            passed, failed = self._passed[row], len(self._failed.get(row, []))
            self._properties.append((_ROW, f"{row}: {passed}/{passed + failed}"))
        assert not self._failed, self._failed
        assert self._passed, "nothing was tried"


def show_tallies(reporter: pytest.TerminalReporter) -> None:
    reports = [report for key in ("passed", "failed") for report in reporter.stats.get(key, [])]
    rows = [row for report in reports for name, row in report.user_properties if name == _ROW]
    if rows:
        reporter.section("passed/total")
        for row in rows:
            reporter.write_line(row)
