"""The conversation with the server, over one HTTP session that only ever calls out.

Every call here may be repeated without harm, so each is repeated until the server answers: silence
is not death, and running tasks are not touched by it. Between tries it waits with full jitter. A
server that no longer knows this node (it lost its memory, not we ours) gets a new registration.
Only the first contact (`register`, `account_id`) and the last (`leave`) are tried once.
"""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
from msgspec.structs import replace

from potluck.model.back_off import BackOff
from potluck.model.error import Conflict, InvalidInput, NotFound, PotluckError, ServerUnreachable
from potluck.model.ids import AccountId, NodeId
from potluck.model.lease import Lease
from potluck.provider.announcement import Announce, ServerAnswers, ServerSilent
from potluck.provider.settings import ProviderSettings
from potluck.wire import routes
from potluck.wire.answer import decoded, failure
from potluck.wire.codec import encode_json, encode_packed
from potluck.wire.identity import Me
from potluck.wire.provider import (
    AcquireLeases,
    Heartbeat,
    HeartbeatAnswer,
    LeasesGranted,
    LogAppended,
    LogChunk,
    NodeRegistered,
    RegisterNode,
    ReportAnswers,
    Reports,
)
from potluck.wire.routes import Route

T = TypeVar("T")
Errors = tuple[type[PotluckError], ...]
ListHeld = Callable[[], tuple[Lease, ...]]

# While the server is silent, a person hears of it this often.
_SAY_AGAIN_SECONDS = 10.0
_LEAVE_SECONDS = 3.0


class Link:
    """The server, as this node sees it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        settings: ProviderSettings,
        registration: RegisterNode,
        announce: Announce,
        keep_node_id: Callable[[NodeId], None],
    ) -> None:
        self._session = session
        self._settings = settings
        self._registration = registration
        self._silence = Silence(announce)
        self._keep_node_id = keep_node_id
        self._registering = asyncio.Lock()
        self._back_off = BackOff(settings.back_off_first_seconds, settings.back_off_longest_seconds)

    @property
    def node_id(self) -> NodeId:
        assert self._registration.node_id is not None, "register comes first"
        return self._registration.node_id

    async def register(self) -> NodeRegistered:
        """Tries once; from then on the server is expected to know this node."""
        answer = await self._once(
            routes.REGISTER_NODE, encode_json(self._registration), NodeRegistered, self._patience()
        )
        self._registration = replace(self._registration, node_id=answer.node_id)
        self._keep_node_id(answer.node_id)
        return answer

    async def account_id(self) -> AccountId:
        """Whose token this is; tried once."""
        return (await self._once(routes.ME, b"", Me, self._patience())).id

    async def acquire(self, held: ListHeld, wait_seconds: float) -> LeasesGranted:
        return await self._persist(
            routes.ACQUIRE_LEASES,
            lambda: encode_json(AcquireLeases(held(), wait_seconds)),
            LeasesGranted,
            patience=self._patience(wait_seconds),
        )

    async def heartbeat(self, beat: Callable[[], Heartbeat]) -> HeartbeatAnswer:
        return await self._persist(
            routes.HEARTBEAT,
            lambda: encode_json(beat()),
            HeartbeatAnswer,
            patience=aiohttp.ClientTimeout(total=self._settings.beat_answer_seconds),
        )

    async def report(self, reports: Callable[[], Reports]) -> ReportAnswers:
        """Raises InvalidInput when the server does not understand them."""
        return await self._persist(
            routes.REPORT, lambda: encode_json(reports()), ReportAnswers, answers=(InvalidInput,)
        )

    async def append_log(self, chunk: LogChunk) -> LogAppended:
        """Raises Conflict for a gap, StaleLease, and InvalidInput past the server's cap."""
        return await self._persist(
            routes.APPEND_LOG,
            lambda: encode_packed(chunk),
            LogAppended,
            answers=(Conflict, InvalidInput),
        )

    async def leave(self) -> None:
        """Says goodbye once; whoever is silent now may be gone for good."""
        patience = aiohttp.ClientTimeout(total=_LEAVE_SECONDS)
        await self._once(routes.LEAVE, b"{}", object, patience)

    async def pause(self, tries: int, least_seconds: float = 0.0) -> None:
        """Waits before another try; full jitter, so that a fleet does not come back as one."""
        seconds = self._back_off.seconds(tries, random.random())
        await asyncio.sleep(max(least_seconds, seconds))

    async def _persist(
        self,
        route: Route,
        body: Callable[[], bytes],
        kind: type[T],
        *,
        answers: Errors = (),
        patience: aiohttp.ClientTimeout | None = None,
    ) -> T:
        """Repeats the call until it succeeds or fails in a way that is an answer.

        Each try says what is true then: an outage may be long.
        """
        tries = 0
        while True:
            try:
                node_id = self.node_id
                answer = await self._once(route, body(), kind, patience or self._patience())
                self._silence.broken()
                return answer
            except PotluckError as error:
                if isinstance(error, answers):
                    self._silence.broken()
                    raise
                tries += 1
                await self._mend(error, node_id)
                await self.pause(tries, error.retry_after_seconds or 0.0)

    async def _mend(self, error: PotluckError, node_id: NodeId) -> None:
        """Registers anew where the server has forgotten us; otherwise only says what is wrong."""
        if not isinstance(error, NotFound):
            self._silence.noticed(error)
            return
        async with self._registering:
            if self.node_id != node_id:
                return
            try:
                await self.register()
            except PotluckError as again:
                self._silence.noticed(again)

    async def _once(
        self, route: Route, body: bytes, kind: type[T], patience: aiohttp.ClientTimeout
    ) -> T:
        packed = route is routes.APPEND_LOG
        headers = {"Content-Type": "application/msgpack" if packed else "application/json"}
        path = route.url(node_id=self._registration.node_id or "")
        try:
            async with self._session.request(
                route.method,
                self._settings.url + path,
                data=body,
                headers=headers,
                timeout=patience,
                # A redirect would carry the token to a place that nobody named.
                allow_redirects=False,
            ) as response:
                return self._answer(response.status, await response.read(), kind)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self._settings.url, error) from error

    def _answer(self, status: int, body: bytes, kind: type[T]) -> T:
        if status >= 300:
            raise failure(status, body, self._settings.url)
        return decoded(body or b"null", kind, self._settings.url)

    def _patience(self, wait_seconds: float = 0.0) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=wait_seconds + self._settings.answer_seconds,
            sock_connect=self._settings.connect_seconds,
        )


class Silence:
    """Tells people when the server falls silent, now and then while it is, and when it is back."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._since: float | None = None
        self._said_at = -math.inf
        self._is_said = False

    def noticed(self, error: PotluckError) -> None:
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at, self._is_said = now, True
            self._announce(ServerSilent(error.code, error.detail, error.hint))

    def broken(self) -> None:
        if self._since is not None and self._is_said:
            self._announce(ServerAnswers(time.monotonic() - self._since))
        self._since, self._is_said = None, False


@asynccontextmanager
async def open_link(
    settings: ProviderSettings,
    registration: RegisterNode,
    announce: Announce,
    keep_node_id: Callable[[NodeId], None],
) -> AsyncIterator[Link]:
    # No limit on connections: a heartbeat must never wait for logs or for the long poll.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"Authorization": f"Bearer {settings.token}"},
    ) as session:
        yield Link(session, settings, registration, announce, keep_node_id)


def _unreachable(url: str, error: Exception) -> ServerUnreachable:
    reason = str(error) or type(error).__name__
    return ServerUnreachable(
        f"Nothing answers at {url} ({reason}).",
        "Is the server running? `potluck up` starts one on this machine.",
    )
