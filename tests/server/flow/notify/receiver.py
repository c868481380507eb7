"""Somebody who receives webhooks: a real server on loopback that can be away, slow or in a mood."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from msgspec import Struct

from potluck import webhook
from potluck.webhook import ReceivedEvent


class Request(Struct, frozen=True):
    headers: dict[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]


Mood = Callable[[Request], int]


class Receiver:
    """Keeps what it got; `effects` has each event once, by its id, in the order of arrival."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.effects: dict[str, Request] = {}
        self.mood: Mood = lambda _: 204
        self.answers: dict[str, str] = {}  # headers of the answer
        self.held: asyncio.Event | None = None  # no answer before it is set
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=x"

    async def open(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def events(self, secret: str, now: float) -> list[ReceivedEvent]:
        """Verified as a receiver of ours would."""
        return [
            webhook.verify(secret, effect.headers, effect.body, now=now, tolerance_seconds=10**9)
            for effect in self.effects.values()
        ]

    async def _take(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        webhook_request = Request(headers, await request.read())
        self.requests.append(webhook_request)
        if self.held is not None:
            await self.held.wait()
        status = self.mood(webhook_request)
        if status == 0:  # it took it, and nobody hears of that
            self.effects.setdefault(webhook_request.event_id, webhook_request)
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if 200 <= status < 300:
            self.effects.setdefault(webhook_request.event_id, webhook_request)
        return web.Response(status=status, headers=self.answers)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.open()
    try:
        yield receiver
    finally:
        if receiver.held is not None:
            receiver.held.set()
        await receiver.close()
