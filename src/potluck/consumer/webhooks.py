"""Webhooks: addresses at which an account is told what happens."""

from collections.abc import Sequence

from msgspec import UNSET

from potluck.consumer.http.api_call import ask, idempotent, tell
from potluck.consumer.http.transport import Transport
from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.wire import routes
from potluck.wire.webhooks import (
    ChangeWebhook,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    ResumeWebhook,
    WebhookList,
    WebhookMade,
    WebhookTried,
    WebhookView,
)


class Webhooks:
    """Of one account at one server.

    `add` and `rotate` are repeated under one key; `test` and `redeliver`, which send something, are
    not repeated.
    """

    def __init__(self, transport: Transport):
        self._transport = transport

    def list(self) -> "list[WebhookView]":
        """All of this account."""
        return ask(self._transport, routes.LIST_WEBHOOKS, WebhookList).webhooks

    def get(self, webhook_id: str) -> WebhookView:
        """One of them, as it is now."""
        return ask(self._transport, routes.GET_WEBHOOK, WebhookView, _named(webhook_id))

    def add(
        self,
        url: str,
        *,
        kinds: Sequence[EventKind] = (),
        name: str | None = None,
        task_id: str | None = None,
    ) -> WebhookMade:
        """What happens from now on is sent there. The secret is in the answer and nowhere else."""
        body = NewWebhook(url, name, tuple(kinds), None if task_id is None else TaskId(task_id))
        return ask(
            self._transport, routes.MAKE_WEBHOOK, WebhookMade, body=body, headers=idempotent()
        )

    def change(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        name: str | None = None,
        kinds: Sequence[EventKind] | None = None,
    ) -> WebhookView:
        """What is not given stays as it is; without any kinds, all are wanted."""
        body = ChangeWebhook(
            UNSET if url is None else url,
            UNSET if name is None else name,
            UNSET if kinds is None else tuple(kinds),
        )
        named = _named(webhook_id)
        return ask(self._transport, routes.CHANGE_WEBHOOK, WebhookView, named, body=body)

    def remove(self, webhook_id: str) -> None:
        """Nothing more is sent there."""
        tell(self._transport, routes.REMOVE_WEBHOOK, _named(webhook_id))

    def test(self, webhook_id: str) -> WebhookTried:
        """Sends an event that says nothing, now, and tells what came back."""
        return ask(self._transport, routes.TEST_WEBHOOK, WebhookTried, _named(webhook_id))

    def rotate(self, webhook_id: str) -> WebhookMade:
        """A new secret; the one before signs as well for a day."""
        named = _named(webhook_id)
        return ask(self._transport, routes.ROTATE_WEBHOOK, WebhookMade, named, headers=idempotent())

    def pause(self, webhook_id: str) -> WebhookView:
        """Nothing is sent there until it is resumed."""
        named = _named(webhook_id)
        return ask(self._transport, routes.PAUSE_WEBHOOK, WebhookView, named, repeatable=True)

    def resume(self, webhook_id: str, *, skip_missed: bool = False) -> WebhookView:
        """Goes on with what has happened meanwhile, or without it."""
        named, body = _named(webhook_id), ResumeWebhook(skip_missed)
        return ask(self._transport, routes.RESUME_WEBHOOK, WebhookView, named, body=body)

    def deliveries(
        self, webhook_id: str, limit: int | None = None, cursor: str | None = None
    ) -> DeliveryPage:
        """What was sent or waits, newest first."""
        query = {"limit": limit, "cursor": cursor}
        named = _named(webhook_id)
        return ask(self._transport, routes.LIST_DELIVERIES, DeliveryPage, named, query=query)

    def redeliver(self, webhook_id: str, delivery_id: str) -> DeliveryView:
        """The same event, with the same id, once more."""
        named = {**_named(webhook_id), "delivery_id": delivery_id}
        return ask(self._transport, routes.REDELIVER, DeliveryView, named)


def _named(webhook_id: str) -> dict[str, str]:
    return {"webhook_id": webhook_id}
