"""RPC endpoints that are not what they should be: they hang, lie, redirect, or talk without end."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.chain.contracts import MAGIC

YES = f"0x{MAGIC:08x}{'00' * 28}"
CHAIN_ID = 31337
_HONEST = {"eth_chainId": hex(CHAIN_ID), "eth_call": YES}

Answer = Callable[[web.Request, str], Awaitable[web.StreamResponse]]


async def honest(_: web.Request, method: str) -> web.StreamResponse:
    """Says yes to all, on the right chain: what the others are compared with."""
    return web.json_response(_said(_HONEST[method]))


async def in_pieces(request: web.Request, method: str) -> web.StreamResponse:
    """The same yes, a few bytes at a time, as a slow network brings it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    text = json.dumps(_said(_HONEST[method])).encode()
    for start in range(0, len(text), 20):
        await response.write(text[start : start + 20])
        await asyncio.sleep(0.005)
    await response.write_eof()
    return response


def saying(**results: Any) -> Answer:
    """Other results than the honest ones."""

    async def answer(_: web.Request, method: str) -> web.StreamResponse:
        return web.json_response(_said({**_HONEST, **results}[method]))

    return answer


def sending(body: bytes, status: int = 200, **headers: str) -> Answer:
    """These bytes to the second question; the first is answered honestly."""

    async def answer(request: web.Request, method: str) -> web.StreamResponse:
        if method == "eth_chainId":
            return await honest(request, method)
        return web.Response(body=body, status=status, headers=headers)

    return answer


async def silent(request: web.Request, method: str) -> web.StreamResponse:
    await asyncio.sleep(1)  # longer than the test lets anybody wait
    return await honest(request, method)


async def dripping(request: web.Request, _: str) -> web.StreamResponse:
    """A byte now and then, until nobody listens."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


def error_with_result() -> Answer:
    error_reply = {"jsonrpc": "2.0", "id": 1, "error": {"code": 3, "message": "reverted"}}
    return sending(json.dumps({**error_reply, "result": YES}).encode())


LIARS: dict[str, Answer] = {
    "another chain": saying(eth_chainId="0x1"),
    "no chain id": saying(eth_chainId="0x"),
    "a chain id that is a number": saying(eth_chainId=CHAIN_ID),
    "a chain id that is no number": saying(eth_chainId="0xpotluck"),
    "a result that is true": saying(eth_call=True),
    "a result that is a list": saying(eth_call=[YES]),
    "a result without 0x": saying(eth_call=YES[2:]),
    "an error beside a yes": error_with_result(),
    "status 500 with a yes": sending(json.dumps(_HONEST).encode(), 500),
    "status 500 and the right body": sending(
        json.dumps({"jsonrpc": "2.0", "id": 1, "result": YES}).encode(), 500
    ),
    "no JSON": sending(b"<html>yes</html>"),
    "a list": sending(b"[]"),
    "deep nesting": sending(b"[" * 4000),
    "a megabyte": sending(
        json.dumps({"jsonrpc": "2.0", "id": 1, "pad": "x" * 2**20, "result": YES}).encode()
    ),
    "silence": silent,
    "a byte now and then": dripping,
}


@asynccontextmanager
async def serving(make_response: Answer) -> AsyncIterator[str]:
    """The address of an endpoint that answers so."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await make_response(request, json.loads(await request.text())["method"])

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def _said(result: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}
