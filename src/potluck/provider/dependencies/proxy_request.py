"""What a client asks of the proxy: the head of one HTTP request, read strictly."""

from http import HTTPStatus
from urllib.parse import urlsplit

from msgspec import Struct

from potluck.provider.dependencies.package_index import Endpoint

# Meant for the proxy alone, or about a body, which no request here has.
_DROPPED = {
    *("connection", "keep-alive", "te", "trailer", "upgrade", "host"),
    *("proxy-authorization", "proxy-connection", "content-length", "transfer-encoding"),
}


class Refused(Exception):
    """The request gets this answer instead of a connection."""

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


class Request(Struct, frozen=True):
    """A tunnel to `endpoint`, or a GET or HEAD there, as `onward` is to be sent to it."""

    endpoint: Endpoint
    onward: bytes = b""

    @property
    def is_tunnel(self) -> bool:
        return not self.onward


def read_request(head: bytes) -> Request:
    """The request in this head, which ends with an empty line; raises Refused."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or any("\r" in line or "\n" in line for line in lines):
        raise Refused(HTTPStatus.BAD_REQUEST, "That is not an HTTP request.")
    method, target, _ = words
    if method == "CONNECT":
        return Request(_endpoint(f"//{target}", None))
    if method in ("GET", "HEAD") and target.startswith("http://"):
        return Request(_endpoint(target, 80), _onward(method, target, lines[1:]))
    raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only CONNECT, GET and HEAD are offered here.")


def _endpoint(url: str, default_port: int | None) -> Endpoint:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or default_port
    except ValueError:
        host, port = None, None
    if not host or not port or "@" in url.partition("//")[2].partition("/")[0]:
        raise Refused(HTTPStatus.BAD_REQUEST, "The request names no host and port.")
    return host.rstrip("."), port


def _onward(method: str, target: str, headers: list[str]) -> bytes:
    # The Host header is ours, so that the host which was checked is the host which is asked.
    authority, slash, path = target.removeprefix("http://").partition("/")
    kept = [line for line in headers if line.partition(":")[0].strip().lower() not in _DROPPED]
    lines = [f"{method} {slash or '/'}{path} HTTP/1.1", f"Host: {authority}", "Connection: close"]
    return "\r\n".join([*lines, *kept, "", ""]).encode("latin-1")
