"""HTTP to one server: one connection pool, timeouts, retries, cached responses, our own errors.

`call_api` is one call: route, path names, query and body out, a typed response in. Calls that are
safe to repeat are retried: reads, writes with an idempotency key, and those that the caller marks
as repeatable. After a refused connection, which has carried nothing, any call is.
"""

import io
import random
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import urllib3
from msgspec import Struct
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from potluck import __version__
from potluck.consumer.identity.bearer import Bearer
from potluck.local.tracing import trace_headers
from potluck.local.trust import make_tls_context
from potluck.model.backoff import BackOff
from potluck.model.error import (
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    NotSignedIn,
    PotluckError,
    ServerUnreachable,
)
from potluck.wire import routes
from potluck.wire.codec import decode_json, encode_request, naming_invalid_field
from potluck.wire.consumer import ServerHealth
from potluck.wire.response import decode_response, error_of_response
from potluck.wire.routes import Route
from potluck.wire.version import explain_difference, request_headers

_MOST_CACHED = 16  # the requests of one screen
_NOT_TLS = "WRONG_VERSION_NUMBER"  # OpenSSL's code for an unencrypted response
_MAY_BE_UNKNOWN = (InvalidInput, NotFound, MethodNotAllowed)  # answers to an unknown request
T = TypeVar("T")
Names = Mapping[str, str]


class Patience(Struct, frozen=True):
    """All timeouts of the client. The defaults suit a person; tests use tenths of seconds."""

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    tries: int = 4  # of a call that may be repeated
    back_off: BackOff = BackOff(first_seconds=0.1, longest_seconds=5.0)
    # If the server asks for a longer pause than this, the error is raised.
    longest_asked_pause_seconds: float = 30.0
    # The server sends a keep-alive every ten seconds; three missing ones mean a lost connection.
    silence_seconds: float = 30.0
    give_up_seconds: float = 120.0  # a stream or a transfer without a connection
    renew_seconds: float = 30.0  # an access token with less time left is renewed first

    def pause_seconds(self, failures: int, asked_seconds: float | None = None) -> float:
        """The requested pause plus a random back-off, so that clients do not return all at once."""
        assert failures >= 1
        return self.back_off.seconds(failures, random.random()) + (asked_seconds or 0.0)

    def accepts(self, asked_seconds: float | None) -> bool:
        return asked_seconds is None or asked_seconds <= self.longest_asked_pause_seconds


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """Parses both forms of the Retry-After header: seconds, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
    except (ValueError, TypeError):
        return None


class CachedResponse(Struct, frozen=True):
    etag: str
    body: bytes


class EtagCache:
    """The last response for each of the most recently used paths, by ETag. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._responses: OrderedDict[str, CachedResponse] = OrderedDict()

    def get(self, path: str) -> CachedResponse | None:
        """The caller keeps it: it may be evicted before the server says that it is unchanged."""
        with self._lock:
            cached = self._responses.get(path)
            if cached is not None:
                self._responses.move_to_end(path)
            return cached

    def keep(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        etag = headers.get("ETag")
        with self._lock:
            self._responses.pop(path, None)
            if etag is not None:
                self._responses[path] = CachedResponse(etag, body)
            while len(self._responses) > _MOST_CACHED:
                self._responses.popitem(last=False)


class Transport:
    """Sends requests to one server; without a bearer, anonymously."""

    def __init__(
        self,
        url: str,
        patience: Patience,
        ca_file: Path | None = None,
        bearer: Bearer | None = None,
    ):
        self.url = url
        self.patience = patience
        self.ca_file = ca_file
        self.bearer = bearer
        self._cache: EtagCache | None = None
        self._server_version: str | None = None  # None until it was asked for
        self._pool = self._new_pool()

    def remember(self) -> None:
        """Caches responses from now on: the server sends again only those that have changed."""
        self._cache = EtagCache()

    def _new_pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(
            headers={**request_headers(__version__), "Accept": "application/json"},
            maxsize=8,
            retries=False,
            ssl_context=make_tls_context(self.ca_file) if self.url.startswith("https:") else None,
        )

    def begin_anew(self) -> None:
        """Replaces all connections by new ones."""
        self._pool = self._new_pool()

    def close(self) -> None:
        self._pool.clear()
        if self.bearer is not None:
            self.bearer.close()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> bytes:
        """Returns the body of the response, after as many tries as the call allows."""
        headers = headers or {}
        repeatable = repeatable or method == "GET" or "Idempotency-Key" in headers
        failures = 0
        while True:
            try:
                return self._try(method, path, body, headers)
            except (PotluckError, HTTPError) as error:
                failures += 1
                if not (_may_repeat(error, repeatable) and failures < self.patience.tries):
                    raise translate_error(error, self.url) from error
                requested_seconds = get_requested_pause(error)
                if not self.patience.accepts(requested_seconds):
                    raise translate_error(error, self.url) from error
                time.sleep(self.patience.pause_seconds(failures, requested_seconds))

    def open_stream(
        self, path: str, headers: Mapping[str, str], expected: Container[int] = (200,)
    ) -> BaseHTTPResponse:
        """A successful response, to be read as it arrives. Not retried; raises HTTPError or
        PotluckError."""
        response = self._send(
            "GET", path, None, headers, self.patience.silence_seconds, preload=False
        )
        if response.status in expected:
            return response
        try:
            raise self._refusal(response, response.read(1_000_000))
        finally:
            response.close()

    def _try(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        cache = self._cache if method == "GET" else None
        cached = cache.get(path) if cache else None
        if cached:
            headers = {**headers, "If-None-Match": cached.etag}
        response = self._send(method, path, body, headers, self.patience.read_seconds)
        if cached and response.status == 304:
            return cached.body
        if 200 <= response.status < 300:
            if cache:
                cache.keep(path, response.headers, response.data)
            return response.data
        raise self._refusal(response, response.data)

    def _refusal(self, response: BaseHTTPResponse, body: bytes) -> PotluckError:
        error = error_of_response(response.status, body, self.url)
        if isinstance(error, NotSignedIn) and self.bearer is not None:
            error = self.bearer.explained(error)
        if type(error) in _MAY_BE_UNKNOWN:
            error.hint = (
                f"{error.hint} {explain_difference(__version__, self._ask_version())}".strip()
            )
        if error.retry_after_seconds is None:
            header = response.headers.get("Retry-After")
            error.retry_after_seconds = parse_retry_after(header, datetime.now(UTC))
        return error

    def _ask_version(self) -> str:
        """The version of the server; empty if it does not tell."""
        if self._server_version is None:
            try:
                url, patience = self.url + routes.HEALTHZ.path, self.patience.connect_seconds
                response = self._pool.request("GET", url, timeout=patience, redirect=False)
                self._server_version = decode_json(response.data, ServerHealth).version
            except (HTTPError, InvalidInput):
                self._server_version = ""
        return self._server_version

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        read_seconds: float,
        preload: bool = True,
    ) -> BaseHTTPResponse:
        """Sends again with a renewed token if the server refuses the first one."""
        content = {} if body is None else _content_headers(body)
        timeout = urllib3.Timeout(connect=self.patience.connect_seconds, read=read_seconds)

        def send(token: str | None) -> BaseHTTPResponse:
            credential = {} if token is None else {"Authorization": f"Bearer {token}"}
            return self._pool.request(
                method,
                self.url + path,
                # Sent in blocks, so that the timeout is for each block of a large body.
                body=None if body is None else io.BytesIO(body),
                headers={
                    **self._pool.headers,
                    **trace_headers(),
                    **credential,
                    **content,
                    **headers,
                },
                timeout=timeout,
                # A redirect would send the token to an address that the user did not choose.
                redirect=False,
                preload_content=preload,
            )

        if self.bearer is None:
            return send(None)
        token = self.bearer.token()
        response = send(token)
        newer = self.bearer.renewed(token) if response.status == NotSignedIn.status else None
        if newer is None:
            return response
        response.close()
        return send(newer)


def _content_headers(body: bytes) -> dict[str, str]:
    return {"Content-Type": "application/json", "Content-Length": str(len(body))}


def get_requested_pause(error: Exception) -> float | None:
    """The pause that the server requested."""
    return error.retry_after_seconds if isinstance(error, PotluckError) else None


def translate_error(error: PotluckError | HTTPError, url: str) -> PotluckError:
    """The error as a PotluckError, with a hint."""
    if isinstance(error, PotluckError):
        return error
    is_tls = isinstance(error, SSLError) and not _is_cut(error)
    if is_tls and _NOT_TLS in str(error):
        return ServerUnreachable(
            f"The server at {url} does not use https.",
            "Use http:// for a server on this machine; a remote one needs a certificate:"
            " `potluck server --tls auto`.",
        )
    if is_tls:
        return ServerUnreachable(
            f"The certificate of {url} is not trusted: {error}.",
            "Check the address. If the pool has its own certificate authority, sign in with"
            " `potluck login URL --ca-fingerprint`, as its server printed it.",
        )
    if isinstance(error, ReadTimeoutError):
        return ServerUnreachable(
            f"{url} took too long to answer.",
            "Try again; check the server's log if it happens again.",
        )
    return ServerUnreachable(
        f"Nothing answers at {url}: is the server running?",
        "Start it with `potluck up`, or choose another: POTLUCK_URL, or --server URL of a command.",
    )


def _is_cut(error: SSLError) -> bool:
    """Whether the connection was lost, which TLS reports as an error of its own."""
    return isinstance(error.args[0], ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _may_repeat(error: PotluckError | HTTPError, repeatable: bool) -> bool:
    if isinstance(error, SSLError) and not _is_cut(error):
        return False
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return True
    return repeatable and (not isinstance(error, PotluckError) or error.retryable)


def call_api(
    transport: Transport,
    route: Route,
    kind: type[T],
    names: Names | None = None,
    *,
    query: Mapping[str, object] | None = None,
    body: Struct | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
) -> T:
    """Calls the route and returns the response as a value of this kind."""
    pairs = {name: value for name, value in (query or {}).items() if value is not None}
    path = build_path(route, names) + (f"?{urlencode(pairs, doseq=True)}" if pairs else "")
    data = None if body is None else encode_request(body)
    with naming_invalid_field(body):
        response = transport.call(route.method, path, data, headers, repeatable)
    return decode_response(response, kind, transport.url)


class _Page(Protocol):
    @property
    def next_cursor(self) -> str | int | None: ...


P = TypeVar("P", bound=_Page)


def iter_pages(
    transport: Transport,
    route: Route,
    kind: type[P],
    query: Mapping[str, object] | None = None,
    cursor: str | int | None = None,
) -> Iterator[P]:
    """All pages of a list, from the cursor on, fetched as needed."""
    while True:
        page = call_api(transport, route, kind, query={**(query or {}), "cursor": cursor})
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def send_command(
    transport: Transport,
    route: Route,
    names: Names | None = None,
    body: Struct | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Calls a route whose response has no body."""
    data = None if body is None else encode_request(body)
    with naming_invalid_field(body):
        transport.call(route.method, build_path(route, names), data, headers)


def idempotency_header() -> dict[str, str]:
    """The header with which a call that creates something can be repeated safely."""
    return {"Idempotency-Key": uuid4().hex}


def build_path(route: Route, names: Names | None = None) -> str:
    """The path of a route; each name stays one path segment, whatever characters it has."""
    safe = {name: quote(value, safe="") or "-" for name, value in (names or {}).items()}
    return route.url(**safe)
