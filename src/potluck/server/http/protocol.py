"""An HTTP protocol with limits for the time and the size of every part of a request.

uvicorn waits without limit for the rest of headers or a body, and accepts headers of any size. Here
an oversized request gets an error response if the client can still read it, and a slow one is
disconnected.

The server calls `is_overdue` ten times a second for the connections that have a time limit, so
requests need no timers, and the thousands that wait for a response or for a request cost nothing.
"""

import asyncio
import math
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from potluck.model.error import HeadersTooLarge, InvalidInput, NotSignedIn, PotluckError
from potluck.server.auth.caller import not_signed_in
from potluck.server.http.headers import REQUEST_ID, headers_for, new_request_id
from potluck.server.http.peers import Peers
from potluck.server.http.settings import HttpSettings
from potluck.wire import codec, problem

# Time for the client to read an error. Closing while it still sends would discard the error.
_LINGER_SECONDS = 1.0
_TOKEN_HEADER = b"authorization:"


class ConnectionPhase(Enum):
    """What the connection waits for."""

    HEAD = auto()  # the request line and the headers
    BODY = auto()  # the rest of a body that the application reads
    ANSWER = auto()  # the application
    REST = auto()  # the rest of a body that was answered early
    IDLE = auto()  # another request; uvicorn has a timer for this
    REFUSED = auto()  # the client to read the error


_WITHOUT_LIMIT = (ConnectionPhase.ANSWER, ConnectionPhase.IDLE)


class EdgeProtocol(HttpToolsProtocol):
    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        settings: HttpSettings,
        peers: Peers,
        timed: "set[EdgeProtocol]",
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._settings = settings
        self._timed = timed
        self._is_lost = False
        self._peers = peers
        self._phase = ConnectionPhase.HEAD
        self._since = self._heard_at = self._stuck_since = self.loop.time()
        self._header_bytes = 0
        self._body_bytes = 0
        self._has_begun = False
        self._line = b""
        # Requests without a complete response, in order: one, or few if they are pipelined.
        self._asked: list[RequestResponseCycle] = []
        self._unread_bytes = 0  # fed to the parser, but not yet reported by it

    def is_overdue(self, now: float) -> bool:
        """Whether a time limit has passed. Time in which we do not read does not count."""
        if self.flow.write_paused:
            return now > self._stuck_since + self._settings.send_seconds
        if self.flow.read_paused:
            self._enter(self._phase)
            return False
        return now > self._deadline()

    def _deadline(self) -> float:
        match self._phase:
            case ConnectionPhase.HEAD:
                return self._since + self._settings.header_seconds
            case ConnectionPhase.BODY:
                return self._body_deadline()
            case ConnectionPhase.REST:
                return self._since + self._settings.body_seconds
            case ConnectionPhase.REFUSED:
                return self._since + _LINGER_SECONDS
            case ConnectionPhase.ANSWER | ConnectionPhase.IDLE:
                return math.inf

    def _body_deadline(self) -> float:
        """Limits both the pause between bytes and the average rate."""
        silent = max(self._heard_at, self._since) + self._settings.body_seconds
        rate = self._settings.body_bytes_per_second
        earned = self._body_bytes / rate if rate else math.inf
        return min(silent, self._since + self._settings.body_seconds + earned)

    def _enter(self, phase: ConnectionPhase) -> None:
        self._phase = phase
        self._since = self.loop.time()
        self._body_bytes = 0
        self._note_timed()

    def _note_timed(self) -> None:
        """Lists this connection with those that have a time limit, if it has one now."""
        is_waiting = self._phase in _WITHOUT_LIMIT and not self.flow.write_paused
        if is_waiting or self._is_lost:
            self._timed.discard(self)
        else:
            self._timed.add(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter(ConnectionPhase.HEAD)
        if not self._peers.may_connect(self.client[0] if self.client else ""):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn notifies only the last request; handlers of earlier ones would write on."""
        for cycle in self._asked:
            cycle.disconnected = True
        super().connection_lost(exc)
        self._is_lost = True
        self._note_timed()

    def pause_writing(self) -> None:
        self._stuck_since = self.loop.time()
        super().pause_writing()
        self._note_timed()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._note_timed()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._phase is ConnectionPhase.REFUSED or self.transport.is_closing():
            return
        if self._phase is ConnectionPhase.IDLE:
            self._enter(ConnectionPhase.HEAD)
        self._heard_at = self.loop.time()
        self._unread_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # An upgrade request, which is answered as a plain request.
            self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            self._refuse(_refusal(error))
        else:
            self._note_line(data)
            if self._unread_bytes > self._settings.max_header_bytes:
                self._refuse(self._overflow(self._line))

    def _note_line(self, data: bytes) -> None:
        """Keeps the start of the unfinished line: the parser does not report it until its end."""
        *_, ended, begun = data.rpartition(b"\n")
        self._line = (begun if ended else self._line + begun)[: len(_TOKEN_HEADER)]

    def _overflow(self, header: bytes) -> PotluckError:
        """An oversized header; for an oversized token, NotSignedIn."""
        if header.lower().startswith(_TOKEN_HEADER):
            return not_signed_in()
        return too_large("headers", self._settings.max_header_bytes)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self._has_begun = True

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._settings.max_url_bytes:
            raise too_large("address", self._settings.max_url_bytes)
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_header(len(name) + len(value) + 4, name + b":")
        if len(self.headers) > self._settings.max_headers:
            raise too_many(self._settings.max_headers)

    def _count_header(self, size: int, header: bytes = b"") -> None:
        self._header_bytes += size
        if self._header_bytes > self._settings.max_header_bytes:
            raise self._overflow(header)

    def on_headers_complete(self) -> None:
        self._has_begun = False
        self._unread_bytes = 0
        client = self._peers.client_behind(self.client, self.headers)
        if client is not None:
            self.scope["client"] = (client.address, 0)
            self.scope["scheme"] = client.scheme
        super().on_headers_complete()
        self._asked.append(self.cycle)
        self._enter(ConnectionPhase.BODY)

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread_bytes = 0
        super().on_message_complete()
        self._enter(
            ConnectionPhase.HEAD if self._phase is ConnectionPhase.REST else ConnectionPhase.ANSWER
        )

    def on_response_complete(self) -> None:
        is_next_here = bool(self.pipeline)
        self._asked.pop(0)
        super().on_response_complete()
        if is_next_here:
            return
        if self._phase is ConnectionPhase.BODY:
            self._enter(ConnectionPhase.REST)
        elif self._phase is ConnectionPhase.ANSWER:
            # The start of the next request may have arrived with this one.
            self._enter(ConnectionPhase.HEAD if self._has_begun else ConnectionPhase.IDLE)

    def _refuse(self, error: PotluckError) -> None:
        """Sends the error if no response has started, and ignores further input."""
        cycle = self._unanswered()
        if cycle is None or not (cycle.response_started or self.pipeline):
            self.transport.write(_answer(error, self.scheme == "https"))
            self._enter(ConnectionPhase.REFUSED)
        else:
            self.transport.abort()
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()

    def _unanswered(self) -> RequestResponseCycle | None:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none before the first request
        return None if cycle is None or cycle.response_complete else cycle


def too_large(what: str, most_bytes: int) -> HeadersTooLarge:
    return HeadersTooLarge(
        f"The {what} of a request may have {most_bytes} bytes at most.", "Send a smaller {what}."
    )


def too_many(most: int) -> HeadersTooLarge:
    return HeadersTooLarge(f"A request may have {most} headers at most.", "Send fewer.")


def _refusal(error: httptools.HttpParserError) -> PotluckError:
    """The error that one of our callbacks raised, or invalid HTTP."""
    cause = error.__context__
    if isinstance(cause, HeadersTooLarge | NotSignedIn):
        return cause
    return InvalidInput("The request is not valid HTTP/1.1.", "Check for a proxy in between.")


def _answer(error: PotluckError, is_secure: bool) -> bytes:
    body = codec.encode_json(problem.to_problem(error))
    sentences = [
        (b"content-type", problem.CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        (REQUEST_ID, new_request_id().encode()),
        *([(b"www-authenticate", b"Bearer")] if error.status == 401 else []),
        *headers_for(problem.CONTENT_TYPE.encode(), is_secure),
    ]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in sentences)
    status = HTTPStatus(error.status)
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() + lines + b"\r\n" + body
