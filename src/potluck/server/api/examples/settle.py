"""What it cost, and what it earned."""

from datetime import date
from typing import Final

from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import DEVICE, NODE, at
from potluck.wire.owner import Earned, Earnings, UsedInAll

_USED = UsedInAll(11.9, 12.1, 4_900.0)

AREA: Final = Area(
    "settle",
    "What was paid. Credits are counted in millionths, as whole numbers: `…_micro`.",
    {
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
