"""States of webhooks and of deliveries."""

from enum import StrEnum


class PauseReason(StrEnum):
    """Why a webhook is paused."""

    OWNER = "owner"  # paused by its owner
    GONE = "gone"  # the receiver answered 410 Gone
    FAILING = "failing"  # deliveries failed for too long


class DeliveryState(StrEnum):
    """The state of an event's delivery to one webhook."""

    PENDING = "pending"  # waits for its first or next try
    DELIVERED = "delivered"  # the receiver answered with success
    GIVEN_UP = "given_up"  # failed for too long, or skipped by the owner
