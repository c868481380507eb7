"""A server that leases as the real one promises, in memory, over real sockets.

It can be told to fall silent, to forget its nodes, to cancel, and to swallow its answers.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from aiohttp import web
from msgspec.structs import replace

from potluck.model.error import (
    Conflict,
    DeviceBound,
    InvalidInput,
    NotFound,
    NotSignedIn,
    PotluckError,
    StaleLease,
    TooLarge,
    Unavailable,
)
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import Lease
from potluck.store.new_ids import new_device_id, new_node_id
from potluck.wire import routes
from potluck.wire.codec import decode_json, decode_packed, encode_json
from potluck.wire.device_challenge import (
    ChallengeAnswer,
    ChallengeAnswers,
    ChallengesAnswered,
    DeviceChallenge,
)
from potluck.wire.identity import Challenge, NodeLogin, NodeToken
from potluck.wire.problem import CONTENT_TYPE, to_problem
from potluck.wire.provider import (
    AcquireLeases,
    Finished,
    Grant,
    Heartbeat,
    HeartbeatAnswer,
    ItemOutcome,
    ItemsDone,
    LeasesGranted,
    LogAppended,
    LogChunk,
    NodeRegistered,
    PackedLogPiece,
    RegisterNode,
    Report,
    ReportAnswer,
    ReportAnswers,
    Reports,
    UnboundDevice,
)
from potluck.wire.signing.device_statement import DeviceStatement, statement_digest
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT
from potluck.wire.signing.sign_in_message import read
from potluck.wire.signing.signature import recover, text_digest
from tests.provider.builders import ACCOUNT
from tests.provider.files.fake_files import FakeFiles

T = TypeVar("T")
PATIENCE_SECONDS = 20.0


class FakeServer:
    """Its public fields are what it has seen, and how it should misbehave."""

    def __init__(self) -> None:
        self.url = ""
        self.files = FakeFiles()
        self.takes_keys = True
        self.tokens: dict[str, str] = {}  # and the node key of each
        self.token_seconds = 900.0
        self.challenges: list[DeviceChallenge] = []
        self.unbound: list[UnboundDevice] = []
        self.answers: list[ChallengeAnswer] = []
        self.nodes: set[NodeId] = set()
        self.registrations: list[RegisterNode] = []
        self.beats: list[Heartbeat] = []
        self.polls: list[AcquireLeases] = []
        self.reports: list[Report] = []
        self.chunks: list[LogChunk] = []
        self.logs: dict[AttemptId, list[PackedLogPiece]] = {}
        self.left: list[NodeId] = []
        self.calls = 0
        self.log_cap_bytes = 2**30
        self.is_silent = False
        self.has_wishes = False
        self.takes_beats = True  # those in polls
        self.bound_elsewhere: set[str] = set()
        self.leave_seconds = 0.0
        self.fails_with: PotluckError | None = None
        self.foreign: tuple[int, str] | None = None  # what a proxy says in our place
        self.refused_logins = 0  # so many are refused before the next is taken
        self.swallow_answers = 0
        self.report_codes: list[str] = []
        self.report_tries: list[AttemptId] = []
        self._offered: dict[AttemptId, Grant] = {}
        self._stale: set[AttemptId] = set()
        self._changed = asyncio.Condition()

    async def offer(self, *grants: Grant) -> None:
        self._offered |= {grant.attempt_id: grant for grant in grants}
        await self._notify()

    async def call_off(self, attempt_id: AttemptId) -> None:
        self._stale.add(attempt_id)
        self._offered.pop(attempt_id, None)
        await self._notify()

    async def until(self, condition: Callable[[], bool], description: str) -> None:
        """Waits for something to be true here; every call to the server looks again."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"{description} did not happen; reports: {self.reports}") from None

    def finished(self, attempt_id: AttemptId) -> list[Finished]:
        return [
            report
            for report in self.reports
            if isinstance(report, Finished) and report.lease.attempt_id == attempt_id
        ]

    async def outcome(self, attempt_id: AttemptId) -> Finished:
        await self.until(lambda: bool(self.finished(attempt_id)), f"the end of {attempt_id}")
        return self.finished(attempt_id)[0]

    def items(self, attempt_id: AttemptId) -> list[ItemOutcome]:
        """The outcomes of its items, in the order in which they were reported."""
        reports = (report for report in self.reports if isinstance(report, ItemsDone))
        return [
            outcome
            for report in reports
            if report.lease.attempt_id == attempt_id
            for outcome in report.outcomes
        ]

    def text(self, attempt_id: AttemptId, *streams: str) -> str:
        pieces = self.logs.get(attempt_id, [])
        return b"".join(
            piece.data for piece in pieces if not streams or piece.stream in streams
        ).decode()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def register(self, body: bytes, _: NodeId) -> tuple[int, NodeRegistered]:
        registration = decode_json(body, RegisterNode)
        for device, statement in zip(
            registration.description.devices, registration.statements, strict=True
        ):
            self._check(device.uuid, statement)
        self._check_bound(registration)
        self.registrations.append(replace(registration, statements=()))
        node_id = registration.node_id if registration.node_id in self.nodes else new_node_id()
        assert node_id is not None
        self.nodes.add(node_id)
        devices = [new_device_id() for _ in registration.description.devices]
        return 201, NodeRegistered(node_id, devices, 90.0, 20.0, 20.0)

    def _check_bound(self, registration: RegisterNode) -> None:
        """As a server does where another wallet has one of the devices."""
        if "nothing" in self.bound_elsewhere:
            raise InvalidInput("That cannot be offered.")
        uuids = {device.uuid for device in registration.description.devices}
        if uuids & self.bound_elsewhere and not registration.contest:
            raise DeviceBound("It is another wallet's.")

    def _check(self, uuid: str, statement: DeviceStatement) -> None:
        """That one of the keys that signed in says so."""
        signed = bytes.fromhex(statement.signature.removeprefix("0x"))
        for key in self.tokens.values():
            digest = statement_digest(uuid, key, self.url, statement.stated_at)
            if (statement.uuid, statement.origin, recover(digest, signed)) == (uuid, self.url, key):
                return
        raise InvalidInput(f"Nobody says that {uuid} is there.")

    async def challenge(self, _: bytes, __: NodeId) -> tuple[int, Challenge]:
        ends = datetime.now(UTC) + timedelta(minutes=5)
        return 200, Challenge(secrets.token_hex(16), ends, [self.url], [1])

    async def node_login(self, body: bytes, _: NodeId) -> tuple[int, NodeToken]:
        login = decode_json(body, NodeLogin)
        login_message = read(login.message)
        signer = recover(text_digest(login.message), bytes.fromhex(login.signature[2:]))
        is_right = (login_message.uri, login_message.statement, login_message.address) == (
            self.url,
            NODE_STATEMENT,
            signer,
        )
        if self.refused_logins:
            self.refused_logins -= 1
            raise NotSignedIn("The nonce is too old.")
        if not (self.takes_keys and is_right):
            raise NotSignedIn("The signature does not let you in.")
        token = secrets.token_hex(16)
        self.tokens[token] = login_message.address
        return 200, NodeToken(token, self.token_seconds, ACCOUNT)

    async def answer_challenges(self, body: bytes, _: NodeId) -> tuple[int, ChallengesAnswered]:
        challenge_answers = decode_json(body, ChallengeAnswers).answers
        self.answers += challenge_answers
        return 200, ChallengesAnswered([answer.uuid for answer in challenge_answers])

    async def acquire(self, body: bytes, _: NodeId) -> tuple[int, LeasesGranted]:
        poll = decode_json(body, AcquireLeases)
        self.polls.append(poll)
        held_ids = {lease.attempt_id for lease in poll.held}
        response = LeasesGranted()
        try:
            async with asyncio.timeout(poll.wait_seconds), self._changed:
                await self._changed.wait_for(lambda: self._news(held_ids) != LeasesGranted())
                response = self._news(held_ids)
        except TimeoutError:
            pass
        took_beat = self.takes_beats and poll.beat is not None
        return 200, replace(response, has_wishes=self.has_wishes, took_beat=took_beat)

    def _here(self, grant: Grant) -> Grant:
        """Of a device that the node has, where it has said that it has any."""
        known_uuids = [device.uuid for device in self.registrations[-1].description.devices]
        if any(device.uuid in known_uuids for device in grant.devices):
            return grant
        return replace(
            grant, devices=[replace(device, uuid=known_uuids[0]) for device in grant.devices]
        )

    def _news(self, held_ids: set[AttemptId]) -> LeasesGranted:
        grants = [
            self._here(grant)
            for attempt_id, grant in self._offered.items()
            if attempt_id not in held_ids
        ]
        return LeasesGranted(grants, sorted(held_ids & self._stale))

    async def heartbeat(self, body: bytes, _: NodeId) -> tuple[int, HeartbeatAnswer]:
        heartbeat = decode_json(body, Heartbeat)
        self.beats.append(heartbeat)
        held_ids = {lease.attempt_id for lease in heartbeat.held}
        return 200, HeartbeatAnswer(sorted(held_ids & self._stale), self.challenges, self.unbound)

    async def report(self, body: bytes, _: NodeId) -> tuple[int, ReportAnswers]:
        return 200, ReportAnswers(
            [self._take(report) for report in decode_json(body, Reports).reports]
        )

    def _take(self, report: Report) -> ReportAnswer:
        attempt_id = report.lease.attempt_id
        self.report_tries.append(attempt_id)
        if self.report_codes:
            return ReportAnswer(attempt_id, False, self.report_codes.pop(0))
        if attempt_id in self._stale:
            return ReportAnswer(attempt_id, False, StaleLease.code)
        self.reports.append(report)
        if isinstance(report, Finished):
            self._offered.pop(attempt_id, None)
        return ReportAnswer(attempt_id, True)

    async def append_log(self, body: bytes, _: NodeId) -> tuple[int, LogAppended]:
        chunk = decode_packed(body, LogChunk)
        self.chunks.append(chunk)
        self._fence(chunk.lease)
        log_pieces = self.logs.setdefault(chunk.lease.attempt_id, [])
        if chunk.offset > len(log_pieces):
            raise Conflict("There is a gap in the log.")
        new = chunk.pieces[len(log_pieces) - chunk.offset :]
        if sum(len(piece.data) for piece in (*log_pieces, *new)) > self.log_cap_bytes:
            raise TooLarge("The log is too long.")
        log_pieces.extend(new)
        return 200, LogAppended(len(log_pieces))

    def _fence(self, lease: Lease) -> None:
        if lease.attempt_id in self._stale:
            raise StaleLease("The lease is gone.")

    async def leave(self, _: bytes, node_id: NodeId) -> tuple[int, dict[str, str]]:
        self.left.append(node_id)
        self.nodes.remove(node_id)
        await asyncio.sleep(self.leave_seconds)
        return 200, {}


Handler = Callable[[bytes, NodeId], Awaitable[tuple[int, Any]]]


@asynccontextmanager
async def fake_server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    app = web.Application(client_max_size=2**24)
    handlers: list[tuple[routes.Route, Handler]] = [
        (routes.CHALLENGE, fake.challenge),
        (routes.NODE_LOGIN, fake.node_login),
        (routes.REGISTER_NODE, fake.register),
        (routes.ACQUIRE_LEASES, fake.acquire),
        (routes.HEARTBEAT, fake.heartbeat),
        (routes.REPORT, fake.report),
        (routes.APPEND_LOG, fake.append_log),
        (routes.ANSWER_CHALLENGES, fake.answer_challenges),
        (routes.LEAVE, fake.leave),
    ]
    for route, handler in handlers:
        app.router.add_route(route.method, route.path, _endpoint(fake, handler))
    for route, answer in fake.files.routes():
        app.router.add_route(route.method, route.path, answer)
    app.router.add_get("/elsewhere/{sha256}", fake.files.download)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


def _endpoint(
    fake: FakeServer, handler: Handler
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        fake.calls += 1
        if fake.is_silent:
            return _hang_up(request)
        if fake.foreign is not None:
            status, page = fake.foreign
            await fake._notify()
            return web.Response(status=status, text=page, content_type="text/html")
        try:
            response = await _answered(fake, handler, request)
        except PotluckError as error:
            response = web.Response(
                status=error.status, body=encode_json(to_problem(error)), content_type=CONTENT_TYPE
            )
        await fake._notify()
        if fake.swallow_answers:
            fake.swallow_answers -= 1
            return _hang_up(request)
        return response

    return answer


async def _answered(fake: FakeServer, handler: Handler, request: web.Request) -> web.Response:
    if request.path not in (routes.CHALLENGE.path, routes.NODE_LOGIN.path):
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in fake.tokens:
            raise NotSignedIn("The token is not known.")
        if fake.fails_with is not None:
            raise fake.fails_with
    node_id = NodeId(request.match_info.get("node_id", ""))
    if node_id and node_id not in fake.nodes:
        raise NotFound("There is no such node.")
    status, value = await handler(await request.read(), node_id)
    return web.Response(status=status, body=encode_json(value), content_type="application/json")


def _hang_up(request: web.Request) -> web.Response:
    """The connection ends without an answer, as when the server was killed."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


SERVER_NOT_READY = Unavailable("The database is not ready.")
