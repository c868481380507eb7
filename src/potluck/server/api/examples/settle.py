"""What it cost, and what it earned."""

from datetime import date
from typing import Final

from potluck.model.credit import EntryKind
from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import ATTEMPT, DEVICE, NODE, TASK, at
from potluck.wire.ledger import LedgerEntry, LedgerLine, LedgerPage, LedgerSummary
from potluck.wire.own_machines import Earned, Earnings, UsedInAll

_HOLD = LedgerEntry(
    41, at(9, 40, 2), EntryKind.HOLD, -41_667, 41_667, TASK, "hello", ATTEMPT, "attic"
)
_CHARGE = LedgerEntry(42, at(9, 40, 16), EntryKind.CHARGE, 0, -868, TASK, "hello", ATTEMPT, "attic")
_USED = UsedInAll(11.9, 12.1, 4_900.0)

AREA: Final = Area(
    "settle",
    "What was paid. Credits are counted in millionths, as whole numbers: `…_micro`.",
    {
        "ledger": Example(
            "List the movements of your credit", answer=LedgerPage([_CHARGE, _HOLD], _HOLD.id)
        ),
        "ledger_summary": Example(
            "See your balance, by day or by task",
            answer=LedgerSummary(
                4_250_000,
                0,
                at(0, 0),
                at(12, 0),
                0,
                868,
                0,
                [LedgerLine(0, 868, 0, date(2026, 11, 16))],
                is_free=False,
            ),
        ),
        "earnings": Example(
            "See what your machines earned",
            answer=Earnings(
                at(0, 0),
                at(12, 0),
                1,
                12.5,
                868,
                [Earned(date(2026, 11, 16), NODE, "attic", DEVICE, 1, 12.5, 868, _USED)],
                _USED,
            ),
        ),
    },
)
