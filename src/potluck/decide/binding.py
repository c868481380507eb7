"""Whose a device is when two wallets show it."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from potluck.model.ids import AccountId


class Verdict(StrEnum):
    """What becomes of a contested binding."""

    OPEN = "open"  # there is still time to answer
    KEPT = "kept"  # the wallet that has the device keeps it
    MOVED = "moved"  # it goes to the wallet that contests it


class Contest(Struct, frozen=True):
    """One wallet has a device, another shows it too; both were asked to compute on it."""

    uuid: str
    incumbent_id: AccountId
    contender_id: AccountId
    seed: bytes
    closes_at: datetime
    has_incumbent_answered: bool = False
    has_contender_answered: bool = False

    def concerns(self, account_id: AccountId) -> bool:
        return account_id in (self.incumbent_id, self.contender_id)


def verdict(contest: Contest, now: datetime) -> Verdict:
    """Whoever has it and can still compute on it keeps it; else whoever can."""
    if contest.has_incumbent_answered:
        return Verdict.KEPT
    if now < contest.closes_at:
        return Verdict.OPEN
    return Verdict.MOVED if contest.has_contender_answered else Verdict.KEPT
