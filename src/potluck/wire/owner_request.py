"""Remote requests of an owner to a node. The server stores them until the node has done them."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import MOST_DEVICES, ShortText
from potluck.model.terms import Order, TermsChange


class OwnerOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """An order and its devices, by uuid or id; empty: all of the node."""

    order: Order
    devices: Annotated[tuple[ShortText, ...], Meta(max_length=MOST_DEVICES)] = ()


class Wish(Struct, frozen=True):
    """A change or an order, with devices by uuid. Each heartbeat carries it until it is done.

    A node that has lost its count of done requests gets an empty one, with the next number.
    """

    number: int
    change: TermsChange | None = None
    order: OwnerOrder | None = None
