"""Sends one POST to checked addresses, through sockets from the caller."""

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from ipaddress import ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from potluck import __version__
from potluck.local import trust
from potluck.model.network.public_address import Address
from potluck.server.egress.destination import Destination
from potluck.server.egress.types import EgressResponse, Unreachable

MOST_ANSWER_BYTES = 64 * 1024
_HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": f"Potluck/{__version__}",
    "Accept-Encoding": "identity",
}


async def post(
    destination: Destination,
    addresses: Sequence[Address],
    open_socket: Callable[[Address, int], socket.socket],
    headers: Mapping[str, str],
    body: bytes,
) -> EgressResponse:
    """Raises Unreachable, and errors of `open_socket`. The caller sets the timeout."""
    connector = aiohttp.TCPConnector(
        resolver=_Pinned(addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=_context(),
        socket_factory=lambda info: open_socket(ip_address(str(info[4][0])), int(info[4][1])),
    )
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                read_bufsize=MOST_ANSWER_BYTES,
                headers=_HEADERS,
            ) as session,
            session.post(
                URL(destination.url, encoded=True),
                data=body,
                headers=headers,
                allow_redirects=False,
            ) as response,
        ):
            wait = _seconds(response.headers.get("Retry-After", ""))
            body_start = await _start(response.content)
            return EgressResponse(response.status, body_start, retry_after_seconds=wait)
    except aiohttp.ClientError as error:
        raise Unreachable(_sentence(error)) from error


@cache
def _context() -> ssl.SSLContext:
    return trust.make_tls_context(None)


def _seconds(text: str) -> float:
    """Dates are ignored: our own pause is long enough."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return float(text) if is_number else 0.0


class _Pinned(AbstractResolver):
    """Resolves every name to the checked addresses."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - all checked ones
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        pass


async def _start(content: aiohttp.StreamReader) -> bytes:
    """Reads the response up to the limit."""
    data = b""
    while len(data) < MOST_ANSWER_BYTES and (
        piece := await content.read(MOST_ANSWER_BYTES - len(data))
    ):
        data += piece
    return data


def _sentence(error: aiohttp.ClientError) -> str:
    """A sentence for the owner of the webhook, without details of the server's network."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "Its certificate is not trusted."
        case aiohttp.ClientSSLError():
            return "The TLS handshake failed."
        case aiohttp.ClientConnectorError():
            return "It does not accept connections."
        case aiohttp.ServerDisconnectedError():
            return "It closed the connection without a response."
        case _:
            return "Its response is not valid HTTP, or is incomplete."
