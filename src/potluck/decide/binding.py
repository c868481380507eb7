"""Whose a device is when two wallets show it."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from potluck.model.ids import AccountId


class BindingVerdict(StrEnum):
    """What becomes of a contested binding."""

    OPEN = "open"  # there is still time to answer
    KEPT = "kept"  # the wallet that has the device keeps it
    MOVED = "moved"  # it goes to the wallet that contests it


class BindingClaim(Struct, frozen=True):
    """One of the two wallets, and how it fares. It has one answer."""

    account_id: AccountId
    until: datetime
    was_right: bool | None = None  # none: it has not answered

    def may_answer(self, now: datetime) -> bool:
        return self.was_right is None and now < self.until


class Contest(Struct, frozen=True):
    """One wallet has a device, another shows it too; both were asked to compute on it."""

    uuid: str
    seed: bytes
    incumbent: BindingClaim
    contender: BindingClaim

    def side_of(self, account_id: AccountId) -> BindingClaim | None:
        sides = (self.incumbent, self.contender)
        return next((side for side in sides if side.account_id == account_id), None)


def verdict(contest: Contest, now: datetime) -> BindingVerdict:
    """Whoever has it and can still compute on it keeps it; else whoever can."""
    if contest.incumbent.was_right:
        return BindingVerdict.KEPT
    if contest.contender.may_answer(now):
        return BindingVerdict.OPEN
    if not contest.contender.was_right:
        return BindingVerdict.KEPT
    return BindingVerdict.OPEN if contest.incumbent.may_answer(now) else BindingVerdict.MOVED
