"""Webhooks: URLs to which the server sends an account's events."""

from collections.abc import Sequence

from msgspec import UNSET

from potluck.consumer.http.transport import (
    Transport,
    call_api,
    idempotency_header,
    iter_pages,
    send_command,
)
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
    """The webhooks of one account.

    `add` and `rotate` are repeated under one idempotency key; `test` and `redeliver`, which send
    something, are not repeated.
    """

    def __init__(self, transport: Transport):
        self._transport = transport

    def list(self) -> "list[WebhookView]":
        """All webhooks of the account."""
        pages = iter_pages(self._transport, routes.LIST_WEBHOOKS, WebhookList)
        return [webhook for page in pages for webhook in page.webhooks]

    def get(self, webhook_id: str) -> WebhookView:
        """One webhook."""
        return call_api(self._transport, routes.GET_WEBHOOK, WebhookView, _names(webhook_id))

    def add(
        self,
        url: str,
        *,
        kinds: Sequence[EventKind] = (),
        name: str | None = None,
        task_id: str | None = None,
    ) -> WebhookMade:
        """Sends events from now on to the URL. Only this response contains the secret."""
        body = NewWebhook(url, name, tuple(kinds), None if task_id is None else TaskId(task_id))
        return call_api(
            self._transport,
            routes.MAKE_WEBHOOK,
            WebhookMade,
            body=body,
            headers=idempotency_header(),
        )

    def change(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        name: str | None = None,
        kinds: Sequence[EventKind] | None = None,
    ) -> WebhookView:
        """Changes the values that are given; an empty `kinds` selects all kinds."""
        body = ChangeWebhook(
            UNSET if url is None else url,
            UNSET if name is None else name,
            UNSET if kinds is None else tuple(kinds),
        )
        names = _names(webhook_id)
        return call_api(self._transport, routes.CHANGE_WEBHOOK, WebhookView, names, body=body)

    def remove(self, webhook_id: str) -> None:
        """Removes a webhook."""
        send_command(self._transport, routes.REMOVE_WEBHOOK, _names(webhook_id))

    def test(self, webhook_id: str) -> WebhookTried:
        """Sends a test event now and returns the receiver's response."""
        return call_api(self._transport, routes.TEST_WEBHOOK, WebhookTried, _names(webhook_id))

    def rotate(self, webhook_id: str) -> WebhookMade:
        """Creates a new secret; events are signed with the previous one too for a day."""
        names = _names(webhook_id)
        return call_api(
            self._transport, routes.ROTATE_WEBHOOK, WebhookMade, names, headers=idempotency_header()
        )

    def pause(self, webhook_id: str) -> WebhookView:
        """Stops deliveries until the webhook is resumed."""
        names = _names(webhook_id)
        return call_api(self._transport, routes.PAUSE_WEBHOOK, WebhookView, names, repeatable=True)

    def resume(self, webhook_id: str, *, skip_missed: bool = False) -> WebhookView:
        """Resumes deliveries, with or without the events that were missed."""
        names, body = _names(webhook_id), ResumeWebhook(skip_missed)
        return call_api(self._transport, routes.RESUME_WEBHOOK, WebhookView, names, body=body)

    def deliveries(
        self, webhook_id: str, limit: int | None = None, cursor: str | None = None
    ) -> DeliveryPage:
        """Deliveries, sent or waiting, newest first."""
        query = {"limit": limit, "cursor": cursor}
        names = _names(webhook_id)
        return call_api(self._transport, routes.LIST_DELIVERIES, DeliveryPage, names, query=query)

    def redeliver(self, webhook_id: str, delivery_id: str) -> DeliveryView:
        """Sends the same event again, with the same id."""
        names = {**_names(webhook_id), "delivery_id": delivery_id}
        return call_api(self._transport, routes.REDELIVER, DeliveryView, names)


def _names(webhook_id: str) -> dict[str, str]:
    return {"webhook_id": webhook_id}
