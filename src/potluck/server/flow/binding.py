"""Binding: one device is bound to one wallet, and a contested one goes to who can compute on it.

Knowing a card's uuid proves nothing: every task that ran on it has read it. So when a second wallet
shows a bound device, both are challenged: the wallet that has it keeps it by answering in time;
otherwise it goes to the other, if that one answered. Until then the newcomer's device gets no work.
A binding whose nodes have been silent for long lapses, and leaving frees it.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from potluck.decide.binding import Contest, Verdict, verdict
from potluck.decide.challenge import PRIME, is_product
from potluck.model.audit import AuditKind
from potluck.model.device import Standing
from potluck.model.ids import AccountId, NodeId
from potluck.server.flow.notify import hurry
from potluck.server.parts import Parts
from potluck.store import audit, bindings
from potluck.store.bindings import Binding, Concern
from potluck.store.database import Connection
from potluck.wire.challenge import (
    SIZE,
    ChallengeAnswer,
    ChallengesAnswered,
    DeviceChallenge,
    factors,
    product_rows,
    rows,
)
from potluck.wire.provider import UnboundDevice

# A wrong product passes all rounds once in 2 ** 62 times.
_ROUNDS = 2


class Told(Struct, frozen=True):
    """What a node hears about its devices."""

    challenges: list[DeviceChallenge]
    unbound: list[UnboundDevice]


class Fact(Struct, frozen=True):
    """Something for the audit, which is written last: its lock is everybody's."""

    kind: AuditKind
    account_id: AccountId
    uuid: str
    detail: dict[str, str] = {}


async def claim(
    parts: Parts, connection: Connection, account_id: AccountId, uuids: Sequence[str]
) -> list[Fact]:
    """Binds what is free, and contests what is another wallet's. Locks the bindings."""
    facts: list[Fact] = []
    for uuid in sorted(uuids):
        facts += await _claim(parts, connection, account_id, uuid)
    return facts


async def free(connection: Connection, account_id: AccountId, node_id: NodeId) -> list[Fact]:
    """The node goes: what no other node of its wallet shows is nobody's."""
    freed = await bindings.free_of_node(connection, node_id, account_id)
    return [Fact(AuditKind.DEVICE_UNBOUND, account_id, uuid, {"why": "left"}) for uuid in freed]


async def record(parts: Parts, connection: Connection, facts: Sequence[Fact]) -> None:
    for fact in facts:
        await audit.append(
            connection, parts.keys.audit, fact.kind, fact.account_id, fact.uuid, fact.detail
        )


async def tell(parts: Parts, account_id: AccountId, node_id: NodeId) -> Told:
    """What there is to say to a node now; what has been decided meanwhile is applied first."""
    concerns = await _concerns(parts, node_id)
    due = [each for each in concerns if each.is_free or _is_decided(each)]
    for each in due:
        await _apply(parts, each.uuid, account_id if each.is_free else None)
    if due:
        await hurry(parts)
        concerns = await _concerns(parts, node_id)
    asked = [each for each in concerns if each.contest and _is_asked(each.contest, account_id)]
    return Told([_challenge(each, account_id) for each in asked], unbound(concerns))


def unbound(concerns: Sequence[Concern]) -> list[UnboundDevice]:
    return [
        UnboundDevice(each.uuid, each.standing)
        for each in concerns
        if each.standing is not Standing.BOUND
    ]


async def answer(
    parts: Parts, account_id: AccountId, answers: Sequence[ChallengeAnswer]
) -> ChallengesAnswered:
    right = [each.uuid for each in answers if await _answer(parts, account_id, each)]
    return ChallengesAnswered(right)


async def _claim(
    parts: Parts, connection: Connection, account_id: AccountId, uuid: str
) -> list[Fact]:
    binding = await bindings.claim(connection, uuid, account_id)
    if binding.is_new:
        return [Fact(AuditKind.DEVICE_BOUND, account_id, uuid)]
    contest, facts = await _settle(connection, uuid)
    holder = await bindings.lock(connection, uuid)
    assert holder is not None, "it is locked since it was claimed"
    if holder.account_id == account_id or contest is not None:
        return facts  # it is ours, or somebody's claim to it is being looked into
    lapse = timedelta(seconds=parts.settings.binding_lapse_seconds)
    if await bindings.has_lapsed(connection, holder, lapse):
        return facts + await _move(connection, holder, account_id, "lapsed")
    lasting = timedelta(seconds=parts.settings.challenge_seconds)
    await bindings.open_contest(connection, uuid, account_id, secrets.token_bytes(32), lasting)
    told = {"bound_to": str(holder.account_id)}
    return [*facts, Fact(AuditKind.DEVICE_CONTESTED, account_id, uuid, told)]


async def _settle(connection: Connection, uuid: str) -> tuple[Contest | None, list[Fact]]:
    """Closes the contest if it is decided; answers the one that is still open."""
    found = await bindings.contest_of(connection, uuid)
    if found is None:
        return None, []
    contest, now = found
    decided = verdict(contest, now)
    if decided is Verdict.OPEN:
        return contest, []
    await bindings.close_contest(connection, uuid)
    if decided is Verdict.KEPT:
        return None, []
    holder = Binding(uuid, contest.incumbent_id)
    return None, await _move(connection, holder, contest.contender_id, "contest")


async def _move(connection: Connection, holder: Binding, new_id: AccountId, why: str) -> list[Fact]:
    await bindings.move(connection, holder.uuid, new_id)
    return [
        Fact(AuditKind.DEVICE_UNBOUND, holder.account_id, holder.uuid, {"why": why}),
        Fact(AuditKind.DEVICE_BOUND, new_id, holder.uuid, {"why": why}),
    ]


async def _apply(parts: Parts, uuid: str, claimant_id: AccountId | None = None) -> None:
    """Decides about one device, in a transaction of its own: all nodes that show it are locked."""
    async with parts.database.transaction() as connection:
        if claimant_id is not None:
            facts = await _claim(parts, connection, claimant_id, uuid)
        elif await bindings.lock(connection, uuid) is not None:
            _, facts = await _settle(connection, uuid)
        else:
            return
        await bindings.lock_nodes(connection, [uuid])
        await bindings.restand(connection, [uuid])
        await record(parts, connection, facts)


async def _answer(parts: Parts, account_id: AccountId, given: ChallengeAnswer) -> bool:
    async with parts.database.transaction() as connection:
        found = await bindings.contest_of(connection, given.uuid)
    if found is None or not _is_asked(found[0], account_id):
        return False
    # Milliseconds of arithmetic, which others need not wait for.
    if not await asyncio.to_thread(_is_right, found[0], account_id, given):
        return False
    async with parts.database.transaction() as connection:
        if not await _note(connection, account_id, given.uuid, found[0]):
            return False
    await _apply(parts, given.uuid)
    await hurry(parts)
    return True


async def _note(connection: Connection, account_id: AccountId, uuid: str, asked: Contest) -> bool:
    """Whether it is still the same contest, and there is still time."""
    await bindings.lock(connection, uuid)
    found = await bindings.contest_of(connection, uuid)
    if found is None or found[0].seed != asked.seed or found[1] >= found[0].closes_at:
        return False
    await bindings.note_answer(connection, found[0], account_id)
    return True


def _is_right(contest: Contest, account_id: AccountId, given: ChallengeAnswer) -> bool:
    seed = _seed(contest, account_id)
    if given.seed != seed:
        return False
    left, right = map(rows, factors(seed))
    claimed = product_rows(given.product)
    chances = ([secrets.randbelow(PRIME) for _ in range(SIZE)] for _ in range(_ROUNDS))
    return all(is_product(left, right, claimed, chance) for chance in chances)


def _challenge(concern: Concern, account_id: AccountId) -> DeviceChallenge:
    assert concern.contest is not None, "only who is asked is challenged"
    left = (concern.contest.closes_at - concern.now).total_seconds()
    return DeviceChallenge(concern.uuid, _seed(concern.contest, account_id), max(0.0, left))


def _seed(contest: Contest, account_id: AccountId) -> str:
    """Another one for each side, so that neither can hand in the other's answer."""
    return hashlib.sha256(contest.seed + account_id.encode()).hexdigest()


def _is_asked(contest: Contest, account_id: AccountId) -> bool:
    """Whether this wallet's answer is still wanted."""
    if account_id == contest.incumbent_id:
        return not contest.has_incumbent_answered
    return account_id == contest.contender_id and not contest.has_contender_answered


def _is_decided(concern: Concern) -> bool:
    contest = concern.contest
    return contest is not None and verdict(contest, concern.now) is not Verdict.OPEN


async def _concerns(parts: Parts, node_id: NodeId) -> list[Concern]:
    async with parts.database.transaction() as connection:
        return await bindings.of_node(connection, node_id)
