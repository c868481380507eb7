"""What an owner asks of a node from elsewhere. The server keeps it until the node has done it."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import ShortText
from potluck.model.terms import Order, TermsChange


class OwnerOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """An order, and the devices it is about, by uuid or id; none: all of the node."""

    order: Order
    devices: Annotated[tuple[ShortText, ...], Meta(max_length=64)] = ()


class Wish(Struct, frozen=True):
    """One of the two, with devices by uuid. Told with each heartbeat until it is carried out.

    Neither, to a node that has forgotten what it carried out: that is the number to go on from.
    """

    number: int
    change: TermsChange | None = None
    order: OwnerOrder | None = None
