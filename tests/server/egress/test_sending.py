"""What is sent arrives as it is, and an answer is short and soon, or none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.post import MOST_ANSWER_BYTES
from potluck.server.egress.send import GuardedSender
from potluck.server.egress.types import EgressResponse, Unreachable

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SECONDS = 0.5


@asynccontextmanager
async def server(behave: Behaviour) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()


def says(text: bytes) -> Behaviour:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        await writer.drain()

    return behave


async def send(url: str) -> EgressResponse:
    outward = GuardedSender(read_allowed(["127.0.0.1"]), SECONDS)
    try:
        return await outward.send(url, {"webhook-id": "event_1"}, b'{"a":1}', "somebody")
    finally:
        outward.close()


async def test_the_request_is_sent_unchanged_and_reveals_nothing_about_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    request_bytes = bytearray()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request_bytes.extend(await reader.readuntil(b"\r\n\r\n"))
        request_bytes.extend(await reader.readexactly(7))
        writer.write(b"HTTP/1.1 202 Accepted\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    async with server(behave) as url:
        response = await send(f"{url}/a%2Fb/../c?d=%20e")
    assert (response.status, response.body_start) == (202, b"ok")
    assert response.retry_after_seconds == 7 and response.is_success
    head, _, body = bytes(request_bytes).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /a%2Fb/../c?d=%20e HTTP/1.1" and body == b'{"a":1}'
    names = {line.split(b":")[0].lower() for line in lines[1:]} - {b"connection"}
    assert names == {
        *(b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type"),
        *(b"content-length", b"webhook-id"),
    }


async def test_a_redirection_is_not_followed() -> None:
    reached = asyncio.Event()

    async def canary(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        reached.set()

    async with server(canary) as target_url:
        for status in (301, 302, 303, 307, 308):
            text = f"HTTP/1.1 {status} Go\r\nLocation: {target_url}/\r\nContent-Length: 0\r\n\r\n"
            async with server(says(text.encode())) as url:
                assert (await send(url)).status == status
    assert not reached.is_set()


async def test_a_long_answer_is_cut_and_an_endless_one_too() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with server(endless) as url:
        response = await send(url)
    assert len(response.body_start) == MOST_ANSWER_BYTES and response.seconds < SECONDS
    bomb = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
        + b"\x1f\x8b" * 10
    )
    async with server(says(bomb)) as url:
        assert (await send(url)).body_start == b"\x1f\x8b" * 10, "nothing is unpacked"


async def test_a_slow_client_is_disconnected() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Again: and again\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    for behave in (silent, dripping, headers):
        started = asyncio.get_running_loop().time()
        async with server(behave) as url:
            with pytest.raises(Unreachable, match="within"):
                await send(url)
        assert asyncio.get_running_loop().time() - started < SECONDS + 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "closed the connection"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "incomplete"),
        (b"HTTP/1.1 999999 What\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "not valid HTTP"),
    ],
)
async def test_an_invalid_response_is_reported_in_a_sentence(text: bytes, sentence: str) -> None:
    async with server(says(text)) as url:
        with pytest.raises(Unreachable) as raised:
            await send(url)
    assert sentence in raised.value.detail, raised.value.detail


async def test_errors_of_closed_ports_and_of_servers_without_tls() -> None:
    async def in_the_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with server(in_the_clear) as url:
        with pytest.raises(Unreachable, match="TLS"):
            await send(url.replace("http:", "https:"))
    with pytest.raises(Unreachable, match="not accept connections"):
        await send(url)
