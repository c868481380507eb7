"""A task's states and log, as they happen."""

from potluck.consumer.http.sse import SentEvent
from potluck.consumer.http.stream import Stream
from potluck.wire.consumer import FollowedState, FollowEvent
from potluck.wire.response import decoded

_EVENT: type[FollowEvent] = FollowEvent  # type: ignore[assignment]  # a union is a type to msgspec


class Follow(Stream[FollowEvent]):
    """The events of one task, until it is final and its log is complete."""

    def _taken(self, sent: SentEvent) -> FollowEvent:
        event: FollowEvent = decoded(sent.data.encode(), _EVENT, self._transport.url)
        if isinstance(event, FollowedState):
            self._is_over = event.task.state.is_final
        return event
