"""Decides which wallet owns a device that two wallets claim."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from potluck.model.ids import AccountId


class BindingVerdict(StrEnum):
    """The decision about a contested binding."""

    OPEN = "open"  # a wallet may still answer
    KEPT = "kept"  # the incumbent keeps the device
    MOVED = "moved"  # the contender gets it


class BindingClaim(Struct, frozen=True):
    """One of the two wallets, and its only answer to the challenge."""

    account_id: AccountId
    until: datetime
    was_right: bool | None = None  # None: no answer yet

    def may_answer(self, now: datetime) -> bool:
        return self.was_right is None and now < self.until


class Contest(Struct, frozen=True):
    """Two wallets claim a device; both were challenged to compute on it."""

    uuid: str
    seed: bytes
    incumbent: BindingClaim
    contender: BindingClaim

    def side_of(self, account_id: AccountId) -> BindingClaim | None:
        sides = (self.incumbent, self.contender)
        return next((side for side in sides if side.account_id == account_id), None)


def decide_binding(contest: Contest, now: datetime) -> BindingVerdict:
    """The incumbent keeps the device if it answers correctly; else the contender may get it."""
    if contest.incumbent.was_right:
        return BindingVerdict.KEPT
    if contest.contender.may_answer(now):
        return BindingVerdict.OPEN
    if not contest.contender.was_right:
        return BindingVerdict.KEPT
    return BindingVerdict.OPEN if contest.incumbent.may_answer(now) else BindingVerdict.MOVED
