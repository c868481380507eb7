"""An account's webhooks: where it wants to be told, and what came of telling it."""

from typing import Annotated, Any

from litestar import Controller, Request, delete, get, patch, post
from litestar.params import QueryParameter
from msgspec import UNSET

from potluck.server.api import pagination
from potluck.server.api.idempotency import IdempotencyKey
from potluck.server.auth import idempotent_secret
from potluck.server.auth.caller import Caller
from potluck.server.flow.notify import webhooks
from potluck.server.services import Parts
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

Asks = Request[Caller, Any, Any]
Cursor = Annotated[str | None, QueryParameter(name="cursor", max_length=64, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500)]


class WebhookController(Controller):
    @get(routes.LIST_WEBHOOKS.template, operation_id="list_webhooks")
    async def list_webhooks(self, request: Asks, parts: Parts) -> WebhookList:
        """Your webhooks, oldest first, and how each of them does."""
        return WebhookList(await webhooks.show_all(parts, request.user.id))

    @post(routes.MAKE_WEBHOOK.template, operation_id="make_webhook")
    async def make_webhook(
        self,
        data: NewWebhook,
        request: Asks,
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> WebhookMade:
        """What happens from now on is sent there. The secret is in this answer and nowhere else."""
        account_id = request.user.id
        asked = idempotent_secret.asked(parts, account_id, "make_webhook", idempotency_key, data)
        return await webhooks.make(parts, account_id, data, asked)

    @get(routes.GET_WEBHOOK.template, operation_id="get_webhook")
    async def get_webhook(self, webhook_id: str, request: Asks, parts: Parts) -> WebhookView:
        """One of them, and how it does."""
        return await webhooks.show(parts, request.user.id, webhook_id)

    @patch(routes.CHANGE_WEBHOOK.template, operation_id="change_webhook")
    async def change_webhook(
        self, webhook_id: str, data: ChangeWebhook, request: Asks, parts: Parts
    ) -> WebhookView:
        """Another address, name or choice of kinds; what is left out stays.

        At another address nothing has failed yet: what waits is tried at once.
        """
        if data.url is not UNSET:
            await parts.limiter.check_webhook_call(request.user.id)
        return await webhooks.change(parts, request.user.id, webhook_id, data)

    @delete(routes.REMOVE_WEBHOOK.template, operation_id="remove_webhook")
    async def remove_webhook(self, webhook_id: str, request: Asks, parts: Parts) -> None:
        """Nothing is sent there any more, and its log goes with it."""
        await webhooks.remove(parts, request.user.id, webhook_id)

    @post(routes.TEST_WEBHOOK.template, operation_id="test_webhook", status_code=200)
    async def test_webhook(self, webhook_id: str, request: Asks, parts: Parts) -> WebhookTried:
        """Sends a `webhook.test` now, and answers with what came back."""
        await parts.limiter.check_webhook_call(request.user.id)
        return await webhooks.test(parts, request.user.id, webhook_id)

    @post(routes.ROTATE_WEBHOOK.template, operation_id="rotate_webhook", status_code=200)
    async def rotate_webhook(
        self,
        webhook_id: str,
        request: Asks,
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> WebhookMade:
        """A new secret. For a day the old one signs as well, so that you can change over."""
        account_id = request.user.id
        asked = idempotent_secret.asked(
            parts, account_id, "rotate_webhook", idempotency_key, webhook_id
        )
        return await webhooks.rotate(parts, account_id, webhook_id, asked)

    @post(routes.PAUSE_WEBHOOK.template, operation_id="pause_webhook", status_code=200)
    async def pause_webhook(self, webhook_id: str, request: Asks, parts: Parts) -> WebhookView:
        """Nothing is sent until it is resumed; what happens meanwhile waits."""
        return await webhooks.pause(parts, request.user.id, webhook_id)

    @post(routes.RESUME_WEBHOOK.template, operation_id="resume_webhook", status_code=200)
    async def resume_webhook(
        self,
        webhook_id: str,
        request: Asks,
        parts: Parts,
        data: ResumeWebhook = ResumeWebhook(),  # noqa: B008 - it is frozen
    ) -> WebhookView:
        """Goes on where it was, or skips what was missed."""
        account_id, skip = request.user.id, data.skip_missed
        await parts.limiter.check_webhook_call(account_id)
        return await webhooks.resume(parts, account_id, webhook_id, skip_missed=skip)

    @get(routes.LIST_DELIVERIES.template, operation_id="list_deliveries")
    async def list_deliveries(
        self,
        webhook_id: str,
        request: Asks,
        parts: Parts,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> DeliveryPage:
        """What was sent there or waits to be, newest first, with what came of each try."""
        pagination.check(cursor, "delivery")
        return await webhooks.deliveries_of(parts, request.user.id, webhook_id, cursor, limit)

    @post(routes.REDELIVER.template, operation_id="redeliver", status_code=200)
    async def redeliver(
        self, webhook_id: str, delivery_id: str, request: Asks, parts: Parts
    ) -> DeliveryView:
        """The same event, with the same id, once more and now; one that still waits is hurried."""
        await parts.limiter.check_webhook_call(request.user.id)
        return await webhooks.redeliver(parts, request.user.id, webhook_id, delivery_id)
