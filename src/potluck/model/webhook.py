"""Webhooks: why one is paused, and what becomes of a delivery."""

from enum import StrEnum


class PauseReason(StrEnum):
    """Why nothing is sent to an address."""

    OWNER = "owner"  # its owner asked for it
    GONE = "gone"  # the receiver answered 410: it wants nothing any more
    FAILING = "failing"  # it took nothing for as long as is tried


class DeliveryState(StrEnum):
    """An event on its way to one webhook."""

    PENDING = "pending"  # it waits for its turn, or for the next try
    DELIVERED = "delivered"  # the receiver answered with a success
    GIVEN_UP = "given_up"  # tried for long enough, or skipped by the owner
