"""`python -m verification.play`: what consumers and providers gain by each end reason, as JSON.

python -m verification.play
python -m verification.play --days 5 --seed 7 --only time_limit --only silence
"""

import argparse
import os
import sys

import msgspec

from verification.play.gains import measure_gains
from verification.play.market_records import MarketSize

_SIZE = MarketSize()
# Of a player without a record, and of one with some.
_DAYS = (1.0, 3.0)
_MOST_MARKETS = 400


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m verification.play",
        description="A tenth of the consumers or providers play each end reason.",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first market")
    parser.add_argument("--providers", type=int, default=_SIZE.providers)
    parser.add_argument("--consumers", type=int, default=_SIZE.consumers)
    parser.add_argument("--days", type=float, action="append", help="repeatable; default: 1 and 3")
    parser.add_argument(
        "--markets", type=int, default=_MOST_MARKETS, help="the most for one play that is undecided"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", action="append", default=[], help="plays that begin like this")
    options = parser.parse_args()
    sizes = [
        MarketSize(options.providers, options.consumers, days) for days in options.days or _DAYS
    ]
    summary = measure_gains(
        sizes, options.seed, options.only, most_markets=options.markets, processes=options.processes
    )
    print(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    return 0 if summary.is_fair else 1


if __name__ == "__main__":
    sys.exit(main())
