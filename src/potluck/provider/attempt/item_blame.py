"""Who is to blame when that which many items of an array run in ends before all have an outcome."""

from enum import StrEnum

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import Touched

# What is no item's own doing, and would meet the next one too.
_FOR_ALL = (EndReason.SANDBOX_FAILED, EndReason.INPUT_FAILED)


class Blame(StrEnum):
    """Whom the end belongs to."""

    ITEM = "item"  # the one that ran: it is his outcome, and the rest go on afresh
    NOBODY = "nobody"  # all that are left go on afresh
    ALL = "all"  # nothing goes on, as it would meet the next one too


def blamed(
    ended: EndReason, recalled: Touched | None, *, is_item_known: bool, can_go_on: bool
) -> Blame:
    """Only an item that is known to have run, and to have had no outcome yet, is ever blamed.

    Where none is, `can_go_on` says whether another try would be more than the same once more.
    """
    is_recalled = recalled is not None and ended is recalled.reason
    if is_recalled or ended in _FOR_ALL:
        return Blame.ALL
    if is_item_known:
        return Blame.ITEM
    return Blame.NOBODY if can_go_on else Blame.ALL
