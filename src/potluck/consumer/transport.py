"""HTTP to one server: one connection pool, retries for what may be repeated, errors translated.

Only calls that are safe to repeat are repeated: reads, and writes that carry an idempotency key.
A connection that was refused has carried nothing, so any call may try that again.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from potluck import __version__
from potluck.consumer.patience import Patience
from potluck.consumer.profile import Profile
from potluck.consumer.retry_after import retry_after_seconds
from potluck.model.error import PotluckError, ServerUnreachable
from potluck.wire.answer import failure


class Transport:
    """Sends requests to the server of a profile."""

    def __init__(self, profile: Profile, patience: Patience):
        self.url = profile.url
        self.patience = patience
        self._pool = urllib3.PoolManager(
            headers={
                "Authorization": f"Bearer {profile.token}",
                "User-Agent": f"potluck/{__version__}",
                "Accept": "application/json",
            },
            maxsize=8,
            retries=False,
        )

    def close(self) -> None:
        self._pool.clear()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of the answer, after as many tries as the call allows."""
        headers = headers or {}
        repeatable = method == "GET" or "Idempotency-Key" in headers
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

    def open_stream(self, path: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """A success whose body is read as it comes. Raises HTTPError or PotluckError, once."""
        response = self._send(
            "GET", path, None, headers, self.patience.silence_seconds, preload=False
        )
        if response.status == 200:
            return response
        try:
            raise self._refusal(response, response.read(1_000_000))
        finally:
            response.close()

    def _try(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        response = self._send(method, path, body, headers, self.patience.read_seconds)
        if 200 <= response.status < 300:
            return response.data
        raise self._refusal(response, response.data)

    def _refusal(self, response: BaseHTTPResponse, body: bytes) -> PotluckError:
        told = failure(response.status, body, self.url)
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
        typed = {"Content-Type": "application/json"} if body is not None else {}
        return self._pool.request(
            method,
            self.url + path,
            body=body,
            headers={**self._pool.headers, **typed, **headers},
            timeout=urllib3.Timeout(connect=self.patience.connect_seconds, read=read_seconds),
            # A redirect would carry the token to an address that nobody chose.
            redirect=False,
            preload_content=preload,
        )


def asked_seconds(error: Exception) -> float | None:
    return error.retry_after_seconds if isinstance(error, PotluckError) else None


def translated(error: PotluckError | HTTPError, url: str) -> PotluckError:
    """A foreign error as one of ours, with the sentence that helps."""
    if isinstance(error, PotluckError):
        return error
    if isinstance(error, SSLError):
        return ServerUnreachable(
            f"The certificate of {url} is not trusted: {error}.",
            "Check the address, or add the authority that signed it to this system.",
        )
    if isinstance(error, ReadTimeoutError):
        return ServerUnreachable(
            f"{url} took too long to answer.", "Try again; look at the server's log if it repeats."
        )
    return ServerUnreachable(
        f"Nothing answers at {url}: is the server running?",
        "Start it with `potluck up`, or name another with --server URL.",
    )


def _may_repeat(error: PotluckError | HTTPError, repeatable: bool) -> bool:
    if isinstance(error, SSLError):
        return False
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return True
    return repeatable and (not isinstance(error, PotluckError) or error.retryable)
