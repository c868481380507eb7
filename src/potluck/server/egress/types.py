"""What came of sending something outward, and who sends it."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class EgressResponse(Struct, frozen=True):
    """What the other side said. A redirection is an answer like any other: nobody follows it."""

    status: int
    body_start: bytes
    seconds: float = 0.0
    retry_after_seconds: float = 0.0  # asked for by the other side

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Unreachable(Exception):
    """Nothing came back; `detail` is a sentence for whoever owns the address."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Busy(Exception):
    """Nothing was sent, for want of room here: nobody outside has done anything wrong."""


class EgressSender(Protocol):
    """What the stages know of it."""

    def check(self, url: str) -> str:
        """The host. Raises DestinationRefused for an address that could never be sent to."""

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, whose: str
    ) -> EgressResponse:
        """For one account. Raises DestinationRefused, Unreachable or Busy."""
