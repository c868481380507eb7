"""`python -m verification.play`: what consumers and providers gain by each end reason, as JSON.

python -m verification.play
python -m verification.play --days 5 --seed 7 --only time_limit --only silence
"""

import argparse
import sys

import msgspec

from verification.play.gains import measure_gains
from verification.play.market_records import MarketSize

_SIZE = MarketSize()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m verification.play",
        description="A tenth of the consumers or providers play each end reason.",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--providers", type=int, default=_SIZE.providers)
    parser.add_argument("--consumers", type=int, default=_SIZE.consumers)
    parser.add_argument("--days", type=float, default=_SIZE.days)
    parser.add_argument("--only", action="append", default=[], help="plays that begin like this")
    options = parser.parse_args()
    size = MarketSize(options.providers, options.consumers, options.days)
    summary = measure_gains(size, options.seed, options.only)
    print(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    return 0 if summary.is_fair else 1


if __name__ == "__main__":
    sys.exit(main())
