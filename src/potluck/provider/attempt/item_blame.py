"""Decides which items an early end belongs to, when many items share one sandbox or interpreter."""

from enum import StrEnum

from potluck.model.task import EndReason, Reporter
from potluck.provider.sandbox.driver import RunOutcome


class Blame(StrEnum):
    ITEM = "item"  # the item that ran gets it as its outcome; the rest continue in a new one
    NONE = "none"  # all remaining items continue in a new one
    ALL = "all"  # nothing continues: the next item would end the same way


def assign_blame(
    ended: EndReason, recalled: RunOutcome | None, *, is_item_known: bool, can_go_on: bool
) -> Blame:
    """An item is blamed only if it is known to have run without an outcome yet.

    Otherwise `can_go_on` says whether another try could end differently.
    """
    is_recalled = recalled is not None and ended is recalled.reason
    if is_recalled or ended.facts.reporter is not Reporter.ITEM:  # not caused by an item
        return Blame.ALL
    if is_item_known:
        return Blame.ITEM
    return Blame.NONE if can_go_on else Blame.ALL
