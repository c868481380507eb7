"""To try a task again: what went along comes along, but for what ended with it."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import ArgumentText, VariableName
from potluck.model.terms import Wallets


class RetryTask(Struct, frozen=True, forbid_unknown_fields=True):
    """Secrets are gone with a task's end, so they are given again."""

    all_items: bool = False  # of an array; else only those that have not succeeded
    secrets: Annotated[dict[VariableName, ArgumentText], Meta(max_length=64)] = {}
    trust: Wallets = ()
    secrets_to_strangers: bool = False
