"""HTTP to one server: one connection pool, retries for what may be repeated, errors translated.

Only calls that are safe to repeat are repeated: reads, writes that carry an idempotency key, and
what its caller knows to be. A connection that was refused has carried nothing, so any call may try
that again.
"""

import io
import random
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Container, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

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
from potluck.local.trust import context
from potluck.model.backoff import BackOff
from potluck.model.error import NotSignedIn, PotluckError, ServerUnreachable
from potluck.wire.response import failure


class Patience(Struct, frozen=True):
    """All times of the client. The defaults suit a person; tests use tenths of seconds."""

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    tries: int = 4  # of a call that may be repeated
    back_off: BackOff = BackOff(first_seconds=0.1, longest_seconds=5.0)
    # A server that asks for a longer pause than this is reported instead of waited for.
    longest_asked_pause_seconds: float = 30.0
    # The server writes a keep-alive every ten seconds, so three missing ones mean a dead line.
    silence_seconds: float = 30.0
    give_up_seconds: float = 120.0  # a follower, or a transfer, without a line to the server
    renew_seconds: float = 30.0  # an access token with less than this left is renewed first

    def pause_seconds(self, failures: int, asked_seconds: float | None = None) -> float:
        """What was asked for and a little more, so that a crowd does not return as one."""
        assert failures >= 1
        return self.back_off.seconds(failures, random.random()) + (asked_seconds or 0.0)

    def accepts(self, asked_seconds: float | None) -> bool:
        return asked_seconds is None or asked_seconds <= self.longest_asked_pause_seconds


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Both forms of the header: seconds, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
    except (ValueError, TypeError):
        return None


# Of one screen's questions; what was not asked for lately goes first.
_MOST = 16


class CachedResponse(Struct, frozen=True):
    """An answer, and the name that the server gave it."""

    etag: str
    body: bytes


class EtagCache:
    """The last answer to each path. Several threads may ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, CachedResponse] = OrderedDict()

    def known(self, path: str) -> CachedResponse | None:
        """The answer that we have. Whoever asks holds on to it: it may be gone from here by the
        time that the server says that it is still the same.
        """
        with self._lock:
            known = self._answers.get(path)
            if known is not None:
                self._answers.move_to_end(path)
            return known

    def keep(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        etag = headers.get("ETag")
        with self._lock:
            self._answers.pop(path, None)
            if etag is not None:
                self._answers[path] = CachedResponse(etag, body)
            while len(self._answers) > _MOST:
                self._answers.popitem(last=False)


class Transport:
    """Sends requests to one server; without a bearer, as nobody."""

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
        self._remembered: EtagCache | None = None
        self._pool = self._new_pool()

    def remember(self) -> None:
        """From now on, what is asked for again is sent again only if it has changed."""
        self._remembered = EtagCache()

    def _new_pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(
            headers={
                "User-Agent": f"potluck/{__version__}",
                "Accept": "application/json",
            },
            maxsize=8,
            retries=False,
            ssl_context=context(self.ca_file) if self.url.startswith("https:") else None,
        )

    def begin_anew(self) -> None:
        """With connections of its own, and none of those that it had."""
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
        """The body of the answer, after as many tries as the call allows."""
        headers = headers or {}
        repeatable = repeatable or method == "GET" or "Idempotency-Key" in headers
        failures = 0
        while True:
            try:
                return self._try(method, path, body, headers)
            except (PotluckError, HTTPError) as error:
                failures += 1
                if not (_may_repeat(error, repeatable) and failures < self.patience.tries):
                    raise translated(error, self.url) from error
                asked = asked_seconds(error)
                if not self.patience.accepts(asked):
                    raise translated(error, self.url) from error
                time.sleep(self.patience.pause_seconds(failures, asked))

    def open_stream(
        self, path: str, headers: Mapping[str, str], expected: Container[int] = (200,)
    ) -> BaseHTTPResponse:
        """A success whose body is read as it comes. Raises HTTPError or PotluckError, once."""
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
        remembered = self._remembered if method == "GET" else None
        known = remembered.known(path) if remembered else None
        asked = {**headers, "If-None-Match": known.etag} if known else headers
        response = self._send(method, path, body, asked, self.patience.read_seconds)
        if known and response.status == 304:
            return known.body
        if 200 <= response.status < 300:
            if remembered:
                remembered.keep(path, response.headers, response.data)
            return response.data
        raise self._refusal(response, response.data)

    def _refusal(self, response: BaseHTTPResponse, body: bytes) -> PotluckError:
        told = failure(response.status, body, self.url)
        if isinstance(told, NotSignedIn) and self.bearer is not None:
            told = self.bearer.explained(told)
        if told.retry_after_seconds is None:
            asked = response.headers.get("Retry-After")
            told.retry_after_seconds = retry_after_seconds(asked, datetime.now(UTC))
        return told

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        read_seconds: float,
        preload: bool = True,
    ) -> BaseHTTPResponse:
        """Refused for its token, it is sent once more with a newer one: nothing was done yet."""
        typed = {} if body is None else _described(body)
        timeout = urllib3.Timeout(connect=self.patience.connect_seconds, read=read_seconds)

        def send(token: str | None) -> BaseHTTPResponse:
            named = {} if token is None else {"Authorization": f"Bearer {token}"}
            return self._pool.request(
                method,
                self.url + path,
                # Block by block: the time allowed is for each, not for all of a large one.
                body=None if body is None else io.BytesIO(body),
                headers={**self._pool.headers, **named, **typed, **headers},
                timeout=timeout,
                # A redirect would carry the token to an address that nobody chose.
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


def _described(body: bytes) -> dict[str, str]:
    return {"Content-Type": "application/json", "Content-Length": str(len(body))}


_NOT_TLS = "WRONG_VERSION_NUMBER"  # OpenSSL's word for an answer in the clear


def asked_seconds(error: Exception) -> float | None:
    return error.retry_after_seconds if isinstance(error, PotluckError) else None


def translated(error: PotluckError | HTTPError, url: str) -> PotluckError:
    """A foreign error as one of ours, with the sentence that helps."""
    if isinstance(error, PotluckError):
        return error
    is_tls = isinstance(error, SSLError) and not _is_cut(error)
    if is_tls and _NOT_TLS in str(error):
        return ServerUnreachable(
            f"What listens at {url} does not speak https.",
            "Name a server on this machine with http://; one elsewhere needs a certificate:"
            " `potluck server --tls auto`.",
        )
    if is_tls:
        return ServerUnreachable(
            f"The certificate of {url} is not trusted: {error}.",
            "Check the address. A pool with an authority of its own is joined with"
            " `potluck login URL --ca-fingerprint`, as its server printed it.",
        )
    if isinstance(error, ReadTimeoutError):
        return ServerUnreachable(
            f"{url} took too long to answer.", "Try again; look at the server's log if it repeats."
        )
    return ServerUnreachable(
        f"Nothing answers at {url}: is the server running?",
        "Start it with `potluck up`, or name another with --server URL.",
    )


def _is_cut(error: SSLError) -> bool:
    """The line broke, and TLS was only the first to notice."""
    return isinstance(error.args[0], ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _may_repeat(error: PotluckError | HTTPError, repeatable: bool) -> bool:
    if isinstance(error, SSLError) and not _is_cut(error):
        return False
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return True
    return repeatable and (not isinstance(error, PotluckError) or error.retryable)
