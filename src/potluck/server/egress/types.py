"""The interface for sending, and its results."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class EgressResponse(Struct, frozen=True):
    """The response of the receiver. Redirects are not followed."""

    status: int
    body_start: bytes
    seconds: float = 0.0
    retry_after_seconds: float = 0.0  # as the receiver requested

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Unreachable(Exception):
    """No response; `detail` is a sentence for the owner of the webhook."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class EgressSender(Protocol):
    """The interface that the stages use."""

    def check(self, url: str) -> str:
        """Returns the host. Raises DestinationRefused for a URL that is never allowed."""

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, whose: str
    ) -> EgressResponse:
        """Sends for one account. Raises DestinationRefused, Unreachable or Busy."""
