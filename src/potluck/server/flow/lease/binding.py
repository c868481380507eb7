"""Binding: one device is bound to one wallet, and a contested one goes to who can compute on it.

Of that wallet's nodes, one at a time offers a card: two that show the same one would sell it twice.

Knowing a card's uuid proves nothing: every task that ran on it has read it. So a second wallet that
shows a bound device is refused, unless it says that it contests it. Then both are challenged: the
wallet that has it keeps it by answering in time; otherwise it goes to the other, if that one
answered. Until then the newcomer's device gets no work. A machine that is away when its device is
contested has longer to answer, and whoever contests in vain has to wait before the next time. A
binding whose nodes have been silent for long lapses, and leaving frees it.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from potluck.decide.binding import (
    BindingClaim,
    BindingVerdict,
    Contest,
    verdict,
)
from potluck.decide.challenge import PRIME, is_product
from potluck.model.audit import AuditKind
from potluck.model.device import Standing
from potluck.model.error import DeviceBound, InvalidInput
from potluck.model.ids import AccountId, NodeId
from potluck.server.flow.notify.notify import hurry
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
    factors,
    product_rows,
    rows,
)
from potluck.wire.provider import UnboundDevice

# A wrong product passes all rounds once in 2 ** 62 times.
_ROUNDS = 2


class BindingNews(Struct, frozen=True):
    """What a node hears about its devices."""

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
    """Binds what is free, and contests what is another wallet's, or refuses it.

    Locks the bindings.
    """
    facts: list[Fact] = []
    for uuid in sorted(uuids):
        facts += await _claim(services, connection, account_id, uuid, contest=contest)
    return facts


async def release_devices(
    connection: Connection, account_id: AccountId, node_id: NodeId
) -> list[Fact]:
    """The node goes: what no other node of its wallet shows is nobody's."""
    freed = await bindings.free_of_node(connection, node_id, account_id)
    return [Fact(AuditKind.DEVICE_UNBOUND, account_id, uuid, {"why": "left"}) for uuid in freed]


async def record_facts(services: Services, connection: Connection, facts: Sequence[Fact]) -> None:
    """Last in a transaction: the audit's lock is everybody's."""
    await audit.append_all(connection, services.keys.audit, facts)


async def collect_news(services: Services, account_id: AccountId, node_id: NodeId) -> BindingNews:
    """What there is to say to a node now; what has been decided meanwhile is applied first."""
    concerns = await _concerns(services, node_id)
    due = [each for each in concerns if each.is_free or _is_decided(each)]
    for each in due:
        await _apply(services, each.uuid, account_id if each.is_free else None)
    if due:
        await hurry(services)
        concerns = await _concerns(services, node_id)
    asked = [each for each in concerns if _is_asked(each, account_id)]
    challenges = [await _challenge(services, each, account_id) for each in asked]
    return BindingNews(challenges, list_unbound(concerns))


def list_unbound(concerns: Sequence[Concern]) -> list[UnboundDevice]:
    return [
        UnboundDevice(each.uuid, each.standing)
        for each in concerns
        if each.standing is not Standing.BOUND
    ]


async def check_answers(
    services: Services, account_id: AccountId, answers: Sequence[ChallengeAnswer]
) -> ChallengesAnswered:
    if len({each.uuid for each in answers}) < len(answers):
        raise InvalidInput(
            "Two answers are about the same device.", "There is one answer to a challenge."
        )
    right = [each.uuid for each in answers if await _answer(services, account_id, each)]
    return ChallengesAnswered(right)


async def _claim(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    uuid: str,
    *,
    contest: bool = True,
) -> list[Fact]:
    binding = await bindings.claim(connection, uuid, account_id)
    if binding.is_new:
        return [Fact(AuditKind.DEVICE_BOUND, account_id, uuid)]
    going_on, facts = await _settle(connection, uuid)
    holder = await bindings.lock(connection, uuid)
    assert holder is not None, "it is locked since it was claimed"
    if holder.account_id == account_id:
        return facts
    is_nobodys = going_on is None and await bindings.has_lapsed(
        connection, holder, lapse_after(services)
    )
    if is_nobodys:
        return facts + await _move(connection, holder, account_id, "lapsed")
    if not contest:
        raise _bound(uuid)
    if going_on is not None:
        return facts  # somebody's claim to it is being looked into
    again = timedelta(seconds=services.settings.contest_again_seconds)
    if await bindings.has_lost(connection, uuid, account_id, again):
        return facts
    return [*facts, await _contest(services, connection, holder, account_id)]


def _bound(uuid: str) -> DeviceBound:
    return DeviceBound(
        f"The device {uuid} is bound to another wallet.",
        "If it is yours, register it with `contest`: both wallets are asked to compute on it.",
    )


async def _contest(
    services: Services, connection: Connection, holder: Binding, account_id: AccountId
) -> Fact:
    away = timedelta(seconds=services.settings.contest_away_seconds)
    seed = secrets.token_bytes(32)
    await bindings.open_contest(connection, holder.uuid, account_id, seed, _lasting(services), away)
    told = {"bound_to": str(holder.account_id)}
    return Fact(AuditKind.DEVICE_CONTESTED, account_id, holder.uuid, told)


async def _settle(connection: Connection, uuid: str) -> tuple[Contest | None, list[Fact]]:
    """Closes the contest if it is decided; answers the one that is still open."""
    found = await bindings.contest_of(connection, uuid)
    if found is None:
        return None, []
    contest, now = found
    decided = verdict(contest, now)
    if decided is BindingVerdict.OPEN:
        return contest, []
    await bindings.close_contest(connection, uuid)
    if decided is BindingVerdict.KEPT:
        await bindings.lose_contest(connection, uuid, contest.contender.account_id)
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
    """Decides about one device, in a transaction of its own: all nodes that show it are locked."""
    async with services.database.transaction() as connection:
        if claimant_id is not None:
            facts = await _claim(services, connection, claimant_id, uuid)
        elif await bindings.lock(connection, uuid) is not None:
            _, facts = await _settle(connection, uuid)
        else:
            return
        await bindings.lock_nodes(connection, [uuid])
        await bindings.restand(connection, [uuid])
        await record_facts(services, connection, facts)


async def _answer(services: Services, account_id: AccountId, given: ChallengeAnswer) -> bool:
    """Whether it is right and in time. A wrong one counts too: there is no second."""
    async with services.database.transaction() as connection:
        if await _asked(connection, account_id, given) is None:
            return False
    # Milliseconds of arithmetic, which others need not wait for.
    is_right = await asyncio.to_thread(_is_right, given)
    async with services.database.transaction() as connection:
        await bindings.lock(connection, given.uuid)
        contest = await _asked(connection, account_id, given)
        if contest is None:
            return False
        await bindings.note_answer(connection, contest, account_id, is_right)
    await _apply(services, given.uuid)
    await hurry(services)
    return is_right


async def _asked(
    connection: Connection, account_id: AccountId, given: ChallengeAnswer
) -> Contest | None:
    """The contest that this answers, while this side may still answer."""
    found = await bindings.contest_of(connection, given.uuid)
    if found is None:
        return None
    contest, now = found
    side = contest.side_of(account_id)
    is_open = side is not None and side.may_answer(now)
    return contest if is_open and given.seed == _seed(contest, account_id) else None


def _is_right(given: ChallengeAnswer) -> bool:
    left, right = map(rows, factors(given.seed))
    claimed = product_rows(given.product)
    chances = ([secrets.randbelow(PRIME) for _ in range(SIZE)] for _ in range(_ROUNDS))
    return all(is_product(left, right, claimed, chance) for chance in chances)


async def _challenge(
    services: Services, concern: Concern, account_id: AccountId
) -> DeviceChallenge:
    """What to show. An incumbent that was away is here: from now on its time runs."""
    side = _side(concern, account_id)
    assert concern.contest is not None and side is not None, "only who is asked is challenged"
    lasting = _lasting(services)
    if side.until > concern.now + lasting:
        async with services.database.transaction() as connection:
            await bindings.lock(connection, concern.uuid)
            await bindings.hurry_incumbent(connection, concern.uuid, lasting)
    left = min(side.until - concern.now, lasting).total_seconds()
    return DeviceChallenge(concern.uuid, _seed(concern.contest, account_id), max(0.0, left))


def _seed(contest: Contest, account_id: AccountId) -> str:
    """Another one for each side, so that neither can hand in the other's answer."""
    return hashlib.sha256(contest.seed + account_id.encode()).hexdigest()


def _is_asked(concern: Concern, account_id: AccountId) -> bool:
    """Whether this wallet's answer is still wanted."""
    side = _side(concern, account_id)
    return side is not None and side.may_answer(concern.now)


def _side(concern: Concern, account_id: AccountId) -> BindingClaim | None:
    return None if concern.contest is None else concern.contest.side_of(account_id)


def _is_decided(concern: Concern) -> bool:
    contest = concern.contest
    return contest is not None and verdict(contest, concern.now) is not BindingVerdict.OPEN


async def _concerns(services: Services, node_id: NodeId) -> list[Concern]:
    async with services.database.transaction() as connection:
        return await bindings.of_node(connection, node_id, lapse_after(services))


def lapse_after(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.binding_lapse_seconds)


def _lasting(services: Services) -> timedelta:
    return timedelta(seconds=services.settings.challenge_seconds)
