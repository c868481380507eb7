"""All calls to the server, over one HTTP session with outgoing connections only.

Every call is idempotent and is retried, with full jitter, until the server answers; running tasks
continue meanwhile. If the server no longer knows this node, the node registers again. Only the
first call (`register`) and the last (`leave`) are tried once. A rejected node key is raised.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

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
from potluck.provider.announcement import Announce
from potluck.provider.server.http import Exchange, ServerRequest, ServerSilence, open_session
from potluck.provider.server.node_key import NodeKey
from potluck.provider.server.node_session import NodeSession
from potluck.provider.server.version_skew import Skews, explain_rejection
from potluck.provider.settings import ProviderSettings
from potluck.wire import routes
from potluck.wire.codec import encode_json, encode_packed
from potluck.wire.consumer import ServerHealth
from potluck.wire.device_challenge import ChallengeAnswers, ChallengesAnswered
from potluck.wire.files import AddFiles, BeginNodeUpload, KeepCheckpoint, Upload
from potluck.wire.own_machines import LeaveNode
from potluck.wire.provider import (
    AcquireLeases,
    CallPosition,
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
ListStreams = Callable[[], tuple[CallPosition, ...]]

_LEAVE_SECONDS = 3.0

_LEASE = "Potluck-Lease"
_BYTES, _PACKED = "application/octet-stream", "application/msgpack"
_PARTIAL = 206
# Slower connections time out.
_SLOWEST_BYTES_PER_SECOND = 2**14
# The server rejects a file; retrying would not help.
_REFUSALS: Errors = (Conflict, InvalidInput, Forbidden)


class NodeServerClient:
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
        self._offer = offer  # called for each registration
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
        """The error of the last call, while the server is silent."""
        return self._silence.error

    async def sign_in(self) -> AccountId:
        """The account that this node works for. Tries once."""
        await self._node_session.token()
        return self._node_session.account_id

    async def renew(self) -> NodeRegistered:
        """Registers again, and retries until the server answers.

        Raises InvalidInput and Conflict if the server rejects the offer.
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
        """Tries once."""
        try:
            answer = await self._register()
        except DeviceBound:
            # Another node's claim to a device must not keep this machine out of the pool.
            self._contests = True
            answer = await self._register()
        except InvalidInput as error:
            answer = await self._register_with_earlier(error)
        self._node_id = answer.node_id
        self._keep_node_id(answer.node_id)
        self._skews.note(answer.server_version)
        return answer

    async def _register(self) -> NodeRegistered:
        offer = self._offer()
        statements = self._key.state_devices(
            offer.description.devices, origin_of(self._settings.url), datetime.now(UTC)
        )
        registration = replace(
            offer, node_id=self._node_id, statements=statements, contest=self._contests
        )
        body = self._skews.encode_registration(registration)
        return await self._once(routes.REGISTER_NODE, body, NodeRegistered, self._patience())

    async def _register_with_earlier(self, error: InvalidInput) -> NodeRegistered:
        """Registers without what is new in this version, if the server's is an earlier one."""
        was_earlier = self._skews.is_server_earlier
        self._skews.note(await self._ask_version())
        if self._skews.is_server_earlier and not was_earlier:
            try:
                return await self._register()
            except InvalidInput as second_error:
                error = second_error
        raise explain_rejection(error, self._skews.theirs) from error

    @property
    def server_version(self) -> str:
        return self._skews.theirs

    async def _ask_version(self) -> str:
        """The version of the server; empty if it does not tell."""
        request = ServerRequest(routes.HEALTHZ, routes.HEALTHZ.path, b"", self._patience())
        try:
            return (await self._exchange.send(request, ServerHealth)).version
        except PotluckError:
            return ""

    async def acquire(
        self,
        held: ListHeld,
        wait_seconds: float,
        streams: ListStreams = lambda: (),
        beat: Callable[[], Heartbeat | None] = lambda: None,
    ) -> LeasesGranted:
        def poll() -> bytes:
            return self._skews.encode(AcquireLeases(held(), wait_seconds, 100, streams(), beat()))

        patience = self._patience(wait_seconds)
        return await self._persist(routes.ACQUIRE_LEASES, poll, LeasesGranted, patience=patience)

    async def heartbeat(self, beat: Callable[[], Heartbeat]) -> HeartbeatAnswer:
        patience = aiohttp.ClientTimeout(total=self._settings.beat_answer_seconds)
        return await self._persist(
            routes.HEARTBEAT, lambda: self._skews.encode(beat()), HeartbeatAnswer, patience=patience
        )

    async def answer_challenges(self, answers: ChallengeAnswers) -> ChallengesAnswered:
        return await self._persist(
            routes.ANSWER_CHALLENGES, lambda: encode_json(answers), ChallengesAnswered
        )

    async def report(self, reports: Callable[[], Reports]) -> ReportAnswers:
        """Raises InvalidInput if the server cannot read them."""
        return await self._persist(
            routes.REPORT,
            lambda: self._skews.encode(reports()),
            ReportAnswers,
            answers=(InvalidInput,),
        )

    async def append_log(self, chunk: LogChunk) -> LogAppended:
        """Raises Conflict for a gap, StaleLease, and InvalidInput beyond the server's limit."""
        return await self._persist(
            routes.APPEND_LOG,
            lambda: encode_packed(chunk),
            LogAppended,
            answers=(Conflict, InvalidInput),
            extra=Extra(content_type=_PACKED),
        )

    async def begin_upload(self, begin: BeginNodeUpload) -> Upload:
        """Raises StaleLease, and QuotaExceeded or InvalidInput if the file is rejected."""
        return await self._persist(
            routes.BEGIN_NODE_UPLOAD, lambda: encode_json(begin), Upload, answers=_REFUSALS
        )

    async def put_part(self, lease: Lease, upload_id: str, number: int, data: bytes) -> Upload:
        """Raises NotFound if the upload is over, and the errors of `begin_upload`."""
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

    async def keep_checkpoint(self, checkpoint: KeepCheckpoint) -> None:
        await self._persist(
            routes.KEEP_CHECKPOINT, lambda: encode_json(checkpoint), object, answers=_REFUSALS
        )

    @asynccontextmanager
    async def open_blob(
        self, lease: Lease, sha256: str, start: int, end: int | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Its bytes from `start` on, up to `end`. Tries once: the reader knows where to resume."""
        span = f"bytes={start}-{'' if end is None else end - 1}"
        path = routes.GET_INPUT.url(node_id=self.node_id, sha256=sha256)
        request = ServerRequest(
            routes.GET_INPUT,
            path,
            b"",
            aiohttp.ClientTimeout(
                sock_connect=self._settings.connect_seconds, sock_read=self._settings.answer_seconds
            ),
            headers={_LEASE: lease.token, **({"Range": span} if start or end else {})},
            parameters={"attempt_id": lease.attempt_id},
        )
        token = await self._node_session.token()
        try:
            async with self._exchange.stream(request, token) as (status, chunks):
                yield chunks if status == _PARTIAL or not start else _skip(chunks, start)
        except NotSignedIn:
            await self._node_session.token(refused=token)
            raise

    async def leave(self, *, wish: int = 0, is_for_good: bool = False) -> None:
        """Tries once: a silent server may be gone for good."""
        patience = aiohttp.ClientTimeout(total=_LEAVE_SECONDS)
        await self._once(routes.LEAVE, encode_json(LeaveNode(is_for_good, wish)), object, patience)

    async def pause(self, tries: int, least_seconds: float = 0.0) -> None:
        """Waits before a retry, with full jitter, so that a fleet does not return all at once."""
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
        """Repeats the call until it succeeds or raises one of `answers`.

        `body` is built for each try: an outage may be long.
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
                    raise  # other errors may be temporary, such as those of a proxy
                tries += 1
                await self._mend(error, node_id)
                await self.pause(tries, error.retry_after_seconds or 0.0)

    async def _mend(self, error: PotluckError, node_id: NodeId) -> None:
        """Registers again if the server does not know this node; otherwise announces the error."""
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
        """Repeats the call with a new token if the token has just expired."""
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
    """Optional parts of a call: names in the path, a lease, a body that is not JSON."""

    names: dict[str, str] = {}
    lease: Lease | None = None
    content_type: str = "application/json"


async def _skip(chunks: AsyncIterator[bytes], start: int) -> AsyncIterator[bytes]:
    """For a server that ignores the Range header."""
    async for chunk in chunks:
        if len(chunk) > start:
            yield chunk[start:]
        start = max(0, start - len(chunk))


@asynccontextmanager
async def open_node_client(
    settings: ProviderSettings,
    key: NodeKey,
    offer: Callable[[], RegisterNode],
    announce: Announce,
    keep_node_id: Callable[[NodeId], None],
) -> AsyncIterator[NodeServerClient]:
    async with open_session(settings.url, settings.ca_file) as session:
        yield NodeServerClient(session, settings, key, offer, announce, keep_node_id)
