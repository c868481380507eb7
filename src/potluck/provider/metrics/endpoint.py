"""The provider's `/metrics`, on loopback only.

It needs no credential: every user of this machine sees its devices anyway. A web page in a browser
here is refused by the name that it asks for.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address

from aiohttp import web

from potluck.model.error import PortTaken
from potluck.provider.metrics.metrics import ProviderMetrics

_HOST = "127.0.0.1"


@asynccontextmanager
async def serve_metrics(
    metrics: ProviderMetrics, port: int, refresh: Callable[[], None]
) -> AsyncIterator[None]:
    """Serves during the block. `refresh` is called before each answer, in the event loop."""

    async def answer(request: web.Request) -> web.Response:
        if not _is_local_name(request.url.host or ""):
            return web.Response(status=403, text="Only programs on this machine may read this.\n")
        refresh()
        accept = ",".join(request.headers.getall("Accept", []))
        text = await asyncio.to_thread(metrics.render, accept)
        return web.Response(body=text.body, headers={"Content-Type": text.content_type})

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await _listen(runner, port)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, _HOST, port).start()
    except OSError as error:
        raise PortTaken(
            f"Port {port} on {_HOST} is not available for metrics: {error.strerror}.",
            "Choose another with --metrics-port, or 0 for none.",
        ) from error


def _is_local_name(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
