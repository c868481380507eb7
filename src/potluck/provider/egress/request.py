"""Parses what a client asks of the proxy: a tunnel, or one plain HTTP request.

Strict, so that no other program can read a request differently: what two readers could understand
in two ways is refused. A connection carries one request; its body has a declared length.
"""

import re
from http import HTTPStatus
from urllib.parse import urlsplit

from msgspec import Struct

from potluck.model.error import InvalidInput
from potluck.model.network.public_address import parse_host

Endpoint = tuple[str, int]
READING = ("GET", "HEAD")
METHODS = (*READING, "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
# Meant for the proxy only, or set by it.
_DROPPED = {
    *("connection", "keep-alive", "te", "trailer", "upgrade", "host", "expect"),
    *("proxy-authorization", "proxy-connection", "content-length"),
}
_REQUEST_LINE = re.compile(r"([A-Z]{3,7}) ([!-~]{1,8192}) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ \t!-~\x80-\xff]*)")


class RequestRefused(Exception):
    """The request gets this response instead of a connection."""

    def __init__(self, status: HTTPStatus, sentence: str):
        self.status = status
        super().__init__(sentence)

    def answer(self) -> bytes:
        body = f"{self}\n".encode()
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + body


class AddressRefused(RequestRefused):
    """The host is allowed, but where it leads is not public."""


class ProxyRequest(Struct, frozen=True):
    """A tunnel to `endpoint` or, if `onward` is set, a request to send there."""

    endpoint: Endpoint
    method: str
    onward: bytes = b""
    body_bytes: int = 0

    @property
    def is_tunnel(self) -> bool:
        return not self.onward


def read_request(head: bytes) -> ProxyRequest:
    """Parses a request head, which ends with an empty line; raises RequestRefused."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _REQUEST_LINE.fullmatch(lines[0])
    if line is None:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "That is not an HTTP request.")
    method, target = line[1], line[2]
    headers = [_header(text) for text in lines[1:]]
    if method == "CONNECT":
        return ProxyRequest(_endpoint(target, None), method)
    if method in METHODS and target.startswith("http://"):
        return _plain(method, target, headers)
    raise RequestRefused(
        HTTPStatus.METHOD_NOT_ALLOWED,
        f"Only CONNECT and http:// with {', '.join(METHODS)} are allowed here.",
    )


def _header(line: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(line)
    if match is None:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "A header of the request is not valid.")
    return match[1].lower(), line


def _plain(method: str, target: str, headers: list[tuple[str, str]]) -> ProxyRequest:
    names = [name for name, _ in headers]
    if "transfer-encoding" in names:
        raise RequestRefused(
            HTTPStatus.LENGTH_REQUIRED, "Over plain HTTP a body needs a Content-Length."
        )
    body_bytes = _body_bytes([line for name, line in headers if name == "content-length"])
    authority, slash, path = target.removeprefix("http://").partition("/")
    if set(authority) & set("?#\\"):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "The request names no host and port.")
    # We set the Host header, so that it is the host which was checked.
    lines = [f"{method} {slash or '/'}{path} HTTP/1.1", f"Host: {authority}", "Connection: close"]
    if body_bytes or method not in READING:
        lines.append(f"Content-Length: {body_bytes}")
    kept_lines = [line for name, line in headers if name not in _DROPPED]
    onward = "\r\n".join([*lines, *kept_lines, "", ""]).encode("latin-1")
    return ProxyRequest(_endpoint(authority, 80), method, onward, body_bytes)


def _body_bytes(lines: list[str]) -> int:
    if not lines:
        return 0
    figure = lines[0].partition(":")[2].strip()
    if len(lines) > 1 or not (figure.isascii() and figure.isdecimal() and len(figure) < 16):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "The Content-Length is not valid.")
    return int(figure)


def _endpoint(authority: str, default_port: int | None) -> Endpoint:
    try:
        parts = urlsplit(f"//{authority}")
        port = parts.port or default_port
        host, _, _ = authority.rpartition(":") if parts.port is not None else (authority, "", "")
        # One dot at the end is the same name.
        name = host if host.startswith("[") else host.removesuffix(".")
        is_plain = bool(name) and "@" not in authority and parts.netloc == authority
        if is_plain and port:
            return parse_host(name)[0], port
    except (ValueError, InvalidInput):
        pass
    raise RequestRefused(HTTPStatus.BAD_REQUEST, "The request names no host and port.")
