"""Server-sent event streams."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from litestar import Request
from litestar.response import ServerSentEvent, ServerSentEventMessage

from potluck.server.api.http.access import still_allowed
from potluck.server.api.http.earlier_clients import LATER_EVENTS, is_earlier_client
from potluck.server.services import Services

T = TypeVar("T")


def stream(
    request: Request[Any, Any, Any],
    followed: AsyncIterator[T],
    message: Callable[[T], ServerSentEventMessage],
) -> ServerSentEvent:
    """Also ends when the credential is revoked: the next request of the client gets the error."""
    return ServerSentEvent(_messages(request, followed, message))


async def _messages(
    request: Request[Any, Any, Any],
    followed: AsyncIterator[T],
    message: Callable[[T], ServerSentEventMessage],
) -> AsyncIterator[ServerSentEventMessage]:
    services: Services = request.app.state.services
    hidden = LATER_EVENTS if is_earlier_client(request.headers) else frozenset()
    looked_at = time.monotonic()
    async for event in followed:
        if time.monotonic() - looked_at >= services.settings.follow_poll_seconds:
            if not await still_allowed(request):
                return
            looked_at = time.monotonic()
        sent = message(event)
        if sent.event not in hidden:
            yield sent
