"""The conversation with the server, over one HTTP session that only ever calls out.

Every call here may be repeated without harm, so each is repeated until the server answers: silence
is not death, and running tasks are not touched by it. Between tries it waits with full jitter. A
server that no longer knows this node (it lost its memory, not we ours) gets a new registration.
Only the first contact (`register`) and the last (`leave`) are tried once. A node key that is not
taken any more ends the conversation.
"""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from potluck.local.trust import context
from potluck.model.backoff import BackOff
from potluck.model.error import (
    Conflict,
    DeviceBound,
    Forbidden,
    InvalidInput,
    NodeKeyRefused,
    NotFound,
    NotSignedIn,
    PotluckError,
)
from potluck.model.ids import AccountId, NodeId
from potluck.model.lease import Lease
from potluck.provider.announcement import Announce, ServerAnswers, ServerSilent
from potluck.provider.server.http import Exchange, ServerRequest
from potluck.provider.server.node_key import NodeKey
from potluck.provider.server.node_session import NodeSession
from potluck.provider.server.version_skew import Skews, explained
from potluck.provider.settings import ProviderSettings
from potluck.wire import routes
from potluck.wire.codec import encode_json, encode_packed
from potluck.wire.consumer import ServerHealth
from potluck.wire.device_challenge import ChallengeAnswers, ChallengesAnswered
from potluck.wire.files import AddFiles, BeginNodeUpload, KeepCheckpoint, Upload
from potluck.wire.own_machines import LeaveNode
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
from potluck.wire.signing.sign_in_answer import origin_of

T = TypeVar("T")
Errors = tuple[type[PotluckError], ...]
ListHeld = Callable[[], tuple[Lease, ...]]

# While the server is silent, a person hears of it this often.
_SAY_AGAIN_SECONDS = 10.0
_LEAVE_SECONDS = 3.0

_LEASE = "Potluck-Lease"
_BYTES, _PACKED = "application/octet-stream", "application/msgpack"
_PARTIAL = 206
# A line that is slower than this is none.
_SLOWEST_BYTES_PER_SECOND = 2**14
# What the server says of files that it does not take; trying again would not help.
_REFUSALS: Errors = (Conflict, InvalidInput, Forbidden)


class Link:
    """The server, as this node sees it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        settings: ProviderSettings,
        key: NodeKey,
        offer: Callable[[], RegisterNode],
        announce: Announce,
        keep_node_id: Callable[[NodeId], None],
    ) -> None:
        self._settings = settings
        self._key = key
        self._exchange = Exchange(session, settings.url)
        self._node_session = NodeSession(self._exchange, key, self._patience())
        self._offer = offer  # asked anew for each registration
        self._node_id = offer().node_id
        self._contests = False
        self._silence = ServerSilence(announce)
        self._keep_node_id = keep_node_id
        self._registering = asyncio.Lock()
        self._skews = Skews(announce)
        self._back_off = BackOff(settings.back_off_first_seconds, settings.back_off_longest_seconds)

    @property
    def node_id(self) -> NodeId:
        assert self._node_id is not None, "register comes first"
        return self._node_id

    @property
    def problem(self) -> PotluckError | None:
        """What keeps us from the server just now."""
        return self._silence.error

    async def sign_in(self) -> AccountId:
        """Whom this node works for. Tries once."""
        await self._node_session.token()
        return self._node_session.account_id

    async def renew(self) -> NodeRegistered:
        """Registers anew, again and again until the server answers.

        Raises InvalidInput and Conflict when it does not take what is offered.
        """
        tries = 0
        while True:
            try:
                async with self._registering:
                    answer = await self.register()
                self._silence.broken()
                return answer
            except (InvalidInput, Conflict, NodeKeyRefused):
                self._silence.broken()
                raise
            except PotluckError as error:
                tries += 1
                self._silence.noticed(error)
                await self.pause(tries, error.retry_after_seconds or 0.0)

    async def register(self) -> NodeRegistered:
        """Tries once; from then on the server is expected to know this node."""
        try:
            answer = await self._register()
        except DeviceBound:
            # Whoever has claimed a device that is here must not keep its machine out of the pool.
            self._contests = True
            answer = await self._register()
        except InvalidInput as error:
            raise await self._explained(error) from error
        self._node_id = answer.node_id
        self._keep_node_id(answer.node_id)
        self._skews.note(answer.server_version)
        return answer

    async def _register(self) -> NodeRegistered:
        offer = self._offer()
        stated = self._key.state_devices(
            offer.description.devices, origin_of(self._settings.url), datetime.now(UTC)
        )
        said = replace(
            offer,
            node_id=self._node_id,
            statements=stated,
            contest=self._contests,
        )
        return await self._once(
            routes.REGISTER_NODE, encode_json(said), NodeRegistered, self._patience()
        )

    @property
    def server_version(self) -> str:
        return self._skews.theirs

    async def _explained(self, error: InvalidInput) -> PotluckError:
        """A server of another version may not know what we say; that is no nonsense of ours."""
        request = ServerRequest(routes.HEALTHZ, routes.HEALTHZ.path, b"", self._patience())
        try:
            health = await self._exchange.send(request, ServerHealth)
        except PotluckError:
            return error
        return explained(error, health.version)

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

    async def answer_challenges(self, answers: ChallengeAnswers) -> ChallengesAnswered:
        return await self._persist(
            routes.ANSWER_CHALLENGES, lambda: encode_json(answers), ChallengesAnswered
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
            extra=Extra(content_type=_PACKED),
        )

    async def begin_upload(self, begin: BeginNodeUpload) -> Upload:
        """Raises StaleLease, and QuotaExceeded or InvalidInput where it is not taken."""
        return await self._persist(
            routes.BEGIN_NODE_UPLOAD, lambda: encode_json(begin), Upload, answers=_REFUSALS
        )

    async def put_part(self, lease: Lease, upload_id: str, number: int, data: bytes) -> Upload:
        """Raises NotFound where the upload is over, and what `begin_upload` raises."""
        call = Extra({"upload_id": upload_id, "number": str(number)}, lease, _BYTES)
        return await self._persist(
            routes.PUT_NODE_PART,
            lambda: data,
            Upload,
            answers=(NotFound, *_REFUSALS),
            patience=self._patience(len(data) / _SLOWEST_BYTES_PER_SECOND),
            extra=call,
        )

    async def finish_upload(self, lease: Lease, upload_id: str) -> Upload:
        call = Extra({"upload_id": upload_id}, lease)
        return await self._persist(
            routes.FINISH_NODE_UPLOAD, bytes, Upload, answers=(NotFound, *_REFUSALS), extra=call
        )

    async def add_files(self, files: AddFiles) -> None:
        body = encode_packed(files)
        await self._persist(
            routes.ADD_FILES,
            lambda: body,
            object,
            answers=_REFUSALS,
            patience=self._patience(len(body) / _SLOWEST_BYTES_PER_SECOND),
            extra=Extra(content_type=_PACKED),
        )

    async def keep_checkpoint(self, kept: KeepCheckpoint) -> None:
        await self._persist(
            routes.KEEP_CHECKPOINT, lambda: encode_json(kept), object, answers=_REFUSALS
        )

    @asynccontextmanager
    async def open_blob(
        self, lease: Lease, sha256: str, start: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Its bytes from `start` on. Tries once: whoever reads knows how far he has come."""
        path = routes.GET_INPUT.url(node_id=self.node_id, sha256=sha256)
        request = ServerRequest(
            routes.GET_INPUT,
            path,
            b"",
            aiohttp.ClientTimeout(
                sock_connect=self._settings.connect_seconds,
                sock_read=self._settings.answer_seconds,
            ),
            headers={_LEASE: lease.token, **({"Range": f"bytes={start}-"} if start else {})},
            parameters={"attempt_id": lease.attempt_id},
        )
        token = await self._node_session.token()
        try:
            async with self._exchange.stream(request, token) as (status, chunks):
                yield chunks if status == _PARTIAL or not start else _behind(chunks, start)
        except NotSignedIn:
            await self._node_session.token(refused=token)
            raise

    async def leave(self, *, wish: int = 0, is_for_good: bool = False) -> None:
        """Says goodbye once; whoever is silent now may be gone for good."""
        patience = aiohttp.ClientTimeout(total=_LEAVE_SECONDS)
        await self._once(routes.LEAVE, encode_json(LeaveNode(is_for_good, wish)), object, patience)

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
        extra: "Extra | None" = None,
    ) -> T:
        """Repeats the call until it succeeds or fails in a way that is an answer.

        Each try says what is true then: an outage may be long.
        """
        tries = 0
        while True:
            try:
                node_id = self.node_id
                answer = await self._once(
                    route, body(), kind, patience or self._patience(), extra or Extra()
                )
                self._silence.broken()
                self._skews.tell()
                return answer
            except PotluckError as error:
                if isinstance(error, answers):
                    self._silence.broken()
                    raise
                if isinstance(error, NodeKeyRefused):
                    raise  # anything else may pass: a proxy's page is not the server's word
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
        self,
        route: Route,
        body: bytes,
        kind: type[T],
        patience: aiohttp.ClientTimeout,
        extra: "Extra | None" = None,
    ) -> T:
        """A token may have ended a moment early; then the call is made again with the next one."""
        extra = extra or Extra()
        path = route.url(node_id=self._node_id or "", **extra.names)
        headers = {} if extra.lease is None else {_LEASE: extra.lease.token}
        request = ServerRequest(route, path, body, patience, extra.content_type, headers)
        token = await self._node_session.token()
        try:
            return await self._exchange.send(request, kind, token)
        except NotSignedIn:
            newer = await self._node_session.token(refused=token)
        return await self._exchange.send(request, kind, newer)

    def _patience(self, wait_seconds: float = 0.0) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=wait_seconds + self._settings.answer_seconds,
            sock_connect=self._settings.connect_seconds,
        )


class Extra(Struct, frozen=True):
    """What some calls have besides a body of JSON: names in the path, a lease, other bytes."""

    names: dict[str, str] = {}
    lease: Lease | None = None
    content_type: str = "application/json"


async def _behind(chunks: AsyncIterator[bytes], start: int) -> AsyncIterator[bytes]:
    """For a server that sends the whole where a part was asked for."""
    async for chunk in chunks:
        if len(chunk) > start:
            yield chunk[start:]
        start = max(0, start - len(chunk))


class ServerSilence:
    """Tells people when the server falls silent, now and then while it is, and when it is back."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._since: float | None = None
        self._said_at = -math.inf
        self._is_said = False
        self.error: PotluckError | None = None

    def noticed(self, error: PotluckError) -> None:
        self.error = error
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at, self._is_said = now, True
            self._announce(ServerSilent(error.code, error.detail, error.hint))

    def broken(self) -> None:
        if self._since is not None and self._is_said:
            self._announce(ServerAnswers(time.monotonic() - self._since))
        self._since, self._is_said, self.error = None, False, None


@asynccontextmanager
async def open_link(
    settings: ProviderSettings,
    key: NodeKey,
    offer: Callable[[], RegisterNode],
    announce: Announce,
    keep_node_id: Callable[[NodeId], None],
) -> AsyncIterator[Link]:
    async with open_session(settings.url, settings.ca_file) as session:
        yield Link(session, settings, key, offer, announce, keep_node_id)


def open_session(url: str, ca_file: Path | None) -> aiohttp.ClientSession:
    """No limit on connections: a heartbeat must never wait for logs or for the long poll."""
    ssl = context(ca_file) if url.startswith("https:") else True
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=ssl))
