"""Credits and tokens: exact in both directions, so that neither side gains by rounding.

One of the two numbers of a rate is 1. So a sum of tokens that the contract paid is always a whole
number of micro-credits, and what is left of a conversion stays where it was.
"""

from math import gcd

from msgspec import Struct

from potluck.model.credit import MICRO

# Of an amount in the ledger, which is a bigint; far above all credits that there can be.
MOST_MICRO = 2**60


class TokenRate(Struct, frozen=True):
    """So many of the token's smallest units are worth so many micro-credits."""

    units: int
    micro: int

    def to_units(self, micro: int) -> int:
        """Rounded down: the rest is paid when it has become a whole unit."""
        return micro * self.units // self.micro

    def to_micro(self, units: int) -> int:
        """Rounded down; exact for every amount that `to_units` returned."""
        return units * self.micro // self.units


def make_rate(decimals: int, credits_per_token: int) -> TokenRate | None:
    """None if neither amount is a multiple of the other."""
    units, micro = 10**decimals, credits_per_token * MICRO
    common = gcd(units, micro)
    rate = TokenRate(units // common, micro // common)
    return rate if 1 in (rate.units, rate.micro) else None
