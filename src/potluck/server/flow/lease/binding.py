"""Binds each device to one wallet; a contested one goes to the wallet that can compute on it.

Of a wallet's nodes, one at a time offers a card: two that show the same one would sell it twice.

Knowing a card's uuid proves nothing: every task that ran on it has read it. So a second wallet that
shows a bound device is refused, unless it contests the binding. Then both wallets are challenged:
the holder keeps the device by answering in time; otherwise it goes to the contender, if that one
answered. Until then the contender's device gets no work. A machine that is away when its device is
contested has longer to answer, and a wallet that lost a contest must wait before the next one. A
binding whose nodes have been silent for long lapses, and leaving releases it.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from potluck.decide.binding import BindingClaim, BindingVerdict, Contest, decide_binding
from potluck.decide.challenge import PRIME, is_product
from potluck.model.audit import AuditKind
from potluck.model.device import Standing
from potluck.model.error import DeviceBound, InvalidInput
from potluck.model.ids import AccountId, NodeId
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import audit
from potluck.store.identity.audit import Fact
from potluck.store.nodes import bindings
from potluck.store.nodes.bindings import Binding, Concern
from potluck.wire.device_challenge import (
    SIZE,
    ChallengeAnswer,
    ChallengesAnswered,
    DeviceChallenge,
    make_factors,
    matrix_rows,
    unpack_product,
)
from potluck.wire.provider import UnboundDevice

# A wrong product passes all rounds with probability 2 ** -62.
_ROUNDS = 2


class BindingNews(Struct, frozen=True):
    """What the server has to tell a node about its devices."""

    challenges: list[DeviceChallenge] = []
    unbound: list[UnboundDevice] = []


async def claim_devices(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    uuids: Sequence[str],
    *,
    contest: bool,
) -> list[Fact]:
    """Binds free devices; contests or refuses those of other wallets. Locks the bindings."""
    facts: list[Fact] = []
    for binding in await bindings.claim_many(connection, sorted(uuids), account_id):
        facts += await _claim(services, connection, account_id, binding, contest=contest)
    return facts


async def release_devices(
    connection: Connection, account_id: AccountId, node_id: NodeId
) -> list[Fact]:
    """Releases the devices of a leaving node that no other node of its wallet shows."""
    freed = await bindings.release_of_node(connection, node_id, account_id)
    return [Fact(AuditKind.DEVICE_UNBOUND, account_id, uuid, {"why": "left"}) for uuid in freed]


async def record_facts(services: Services, connection: Connection, facts: Sequence[Fact]) -> None:
    """Call last in a transaction: the audit lock is shared by all."""
    await audit.append_all(connection, services.keys.audit, facts)


async def collect_news(services: Services, account_id: AccountId, node_id: NodeId) -> BindingNews:
    """The challenges and unbound devices of a node, after applying decided contests."""
    concerns = await _concerns(services, node_id)
    due = [concern for concern in concerns if concern.is_free or _is_decided(concern)]
    for concern in due:
        await _apply(services, concern.uuid, account_id if concern.is_free else None)
    if due:
        await wake_leader(services)
        concerns = await _concerns(services, node_id)
    open_concerns = [concern for concern in concerns if _may_answer(concern, account_id)]
    challenges = [await _challenge(services, concern, account_id) for concern in open_concerns]
    return BindingNews(challenges, list_unbound(concerns))


def list_unbound(concerns: Sequence[Concern]) -> list[UnboundDevice]:
    return [
        UnboundDevice(concern.uuid, concern.standing)
        for concern in concerns
        if concern.standing is not Standing.BOUND
    ]


async def check_answers(
    services: Services, account_id: AccountId, answers: Sequence[ChallengeAnswer]
) -> ChallengesAnswered:
    if len({answer.uuid for answer in answers}) < len(answers):
        raise InvalidInput("Two answers are for the same device.", "Send one answer per challenge.")
    correct = [answer.uuid for answer in answers if await _answer(services, account_id, answer)]
    return ChallengesAnswered(correct)


async def _claim(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    binding: Binding,
    *,
    contest: bool = True,
) -> list[Fact]:
    uuid = binding.uuid
    if binding.is_new:
        return [Fact(AuditKind.DEVICE_BOUND, account_id, uuid)]
    if binding.account_id == account_id and not binding.is_contested:
        return []
    open_contest, facts = await _settle(connection, uuid)
    holder = await bindings.lock(connection, uuid)
    assert holder is not None, "locked since it was claimed"
    if holder.account_id == account_id:
        return facts
    is_lapsed = open_contest is None and await bindings.has_lapsed(
        connection, holder, lapse_after(services)
    )
    if is_lapsed:
        return facts + await _move(connection, holder, account_id, "lapsed")
    if not contest:
        raise _bound(uuid)
    if open_contest is not None:
        return facts  # another contest is open
    cooldown = timedelta(seconds=services.settings.contest_again_seconds)
    if await bindings.has_lost_contest(connection, uuid, account_id, cooldown):
        return facts
    return [*facts, await _contest(services, connection, holder, account_id)]


def _bound(uuid: str) -> DeviceBound:
    return DeviceBound(
        f"The device {uuid} is bound to another wallet.",
        "If it is yours, register it with `contest`: both wallets must then compute on it.",
    )


async def _contest(
    services: Services, connection: Connection, holder: Binding, account_id: AccountId
) -> Fact:
    away = timedelta(seconds=services.settings.contest_away_seconds)
    seed = secrets.token_bytes(32)
    await bindings.open_contest(
        connection, holder.uuid, account_id, seed, _challenge_duration(services), away
    )
    data = {"bound_to": str(holder.account_id)}
    return Fact(AuditKind.DEVICE_CONTESTED, account_id, holder.uuid, data)


async def _settle(connection: Connection, uuid: str) -> tuple[Contest | None, list[Fact]]:
    """Closes a decided contest; returns the contest if it is still open."""
    row = await bindings.read_contest(connection, uuid)
    if row is None:
        return None, []
    contest, now = row
    outcome = decide_binding(contest, now)
    if outcome is BindingVerdict.OPEN:
        return contest, []
    await bindings.close_contest(connection, uuid)
    if outcome is BindingVerdict.KEPT:
        await bindings.record_lost_contest(connection, uuid, contest.contender.account_id)
        return None, []
    holder = Binding(uuid, contest.incumbent.account_id)
    return None, await _move(connection, holder, contest.contender.account_id, "contest")


async def _move(connection: Connection, holder: Binding, new_id: AccountId, why: str) -> list[Fact]:
    await bindings.move(connection, holder.uuid, new_id)
    return [
        Fact(AuditKind.DEVICE_UNBOUND, holder.account_id, holder.uuid, {"why": why}),
        Fact(AuditKind.DEVICE_BOUND, new_id, holder.uuid, {"why": why}),
    ]


async def _apply(services: Services, uuid: str, claimant_id: AccountId | None = None) -> None:
    """Decides about one device in its own transaction; locks all nodes that show it."""
    async with services.database.transaction() as connection:
        if claimant_id is not None:
            (binding,) = await bindings.claim_many(connection, [uuid], claimant_id)
            facts = await _claim(services, connection, claimant_id, binding)
        elif await bindings.lock(connection, uuid) is not None:
            _, facts = await _settle(connection, uuid)
        else:
            return
        await bindings.lock_nodes(connection, [uuid])
        await bindings.update_standings(connection, [uuid])
        await record_facts(services, connection, facts)


async def _answer(services: Services, account_id: AccountId, answer: ChallengeAnswer) -> bool:
    """Whether the answer is correct and in time. A wrong one counts too: there is no second."""
    async with services.database.transaction() as connection:
        if await _open_contest(connection, account_id, answer) is None:
            return False
    # Milliseconds of arithmetic, off the event loop.
    is_correct = await asyncio.to_thread(_is_correct, answer)
    async with services.database.transaction() as connection:
        await bindings.lock(connection, answer.uuid)
        contest = await _open_contest(connection, account_id, answer)
        if contest is None:
            return False
        await bindings.record_answer(connection, contest, account_id, is_correct)
    await _apply(services, answer.uuid)
    await wake_leader(services)
    return is_correct


async def _open_contest(
    connection: Connection, account_id: AccountId, answer: ChallengeAnswer
) -> Contest | None:
    """The contest that this answers, while this side may still answer."""
    row = await bindings.read_contest(connection, answer.uuid)
    if row is None:
        return None
    contest, now = row
    side = contest.side_of(account_id)
    is_open = side is not None and side.may_answer(now)
    return contest if is_open and answer.seed == _seed(contest, account_id) else None


def _is_correct(answer: ChallengeAnswer) -> bool:
    left, right = map(matrix_rows, make_factors(answer.seed))
    claimed = unpack_product(answer.product)
    vectors = ([secrets.randbelow(PRIME) for _ in range(SIZE)] for _ in range(_ROUNDS))
    return all(is_product(left, right, claimed, vector) for vector in vectors)


async def _challenge(
    services: Services, concern: Concern, account_id: AccountId
) -> DeviceChallenge:
    """The challenge to send. For an incumbent that was away, the time starts now."""
    side = _side(concern, account_id)
    assert concern.contest is not None and side is not None, "only an open side is challenged"
    duration = _challenge_duration(services)
    if side.until > concern.now + duration:
        async with services.database.transaction() as connection:
            await bindings.lock(connection, concern.uuid)
            await bindings.start_incumbent_time(connection, concern.uuid, duration)
    left = min(side.until - concern.now, duration).total_seconds()
    return DeviceChallenge(concern.uuid, _seed(concern.contest, account_id), max(0.0, left))


def _seed(contest: Contest, account_id: AccountId) -> str:
    """Different for each side, so that neither can submit the other's answer."""
    return hashlib.sha256(contest.seed + account_id.encode()).hexdigest()


def _may_answer(concern: Concern, account_id: AccountId) -> bool:
    """Whether this wallet may still answer."""
    side = _side(concern, account_id)
    return side is not None and side.may_answer(concern.now)


def _side(concern: Concern, account_id: AccountId) -> BindingClaim | None:
    return None if concern.contest is None else concern.contest.side_of(account_id)


def _is_decided(concern: Concern) -> bool:
    contest = concern.contest
    return contest is not None and decide_binding(contest, concern.now) is not BindingVerdict.OPEN


async def _concerns(services: Services, node_id: NodeId) -> list[Concern]:
    async with services.database.transaction() as connection:
        return await bindings.list_concerns(connection, node_id, lapse_after(services))


def lapse_after(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.binding_lapse_seconds)


def _challenge_duration(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.challenge_seconds)
