"""Views that a person has saved: a page of the dashboard with its filters, under a name."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, PRINTABLE

NameText = Annotated[str, Meta(min_length=1, max_length=60, pattern=PRINTABLE)]
PageText = Annotated[str, Meta(max_length=40, pattern=f"^[a-z-]*{END}")]
QueryText = Annotated[str, Meta(max_length=1_000, pattern=f"^[!-~]*{END}")]


class SavedView(Struct, frozen=True, forbid_unknown_fields=True):
    page: PageText  # such as `tasks`
    name: NameText
    query: QueryText  # of the address, without the question mark


class SavedViews(Struct, frozen=True, forbid_unknown_fields=True):
    """All of an account, in its order."""

    views: Annotated[tuple[SavedView, ...], Meta(max_length=50)] = ()
