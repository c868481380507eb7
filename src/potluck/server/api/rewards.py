"""Rewards: contribution, epochs, signed statements, and payouts outside the pool."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from litestar.params import QueryParameter

from potluck.model.account import Scope
from potluck.model.audit import AuditKind
from potluck.model.credit import RewardsTo
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import AccountId
from potluck.server.api.area import OPEN, Area
from potluck.server.api.examples.names import (
    ACCOUNT,
    DEVICE,
    NODE,
    ORIGIN,
    OWNER,
    SHA256,
    SIGNATURE,
    WALLET,
    at,
)
from potluck.server.api.http.pagination import Cursor, Limit, bad_cursor, check_cursor
from potluck.server.api.http.parameters import CallerRequest
from potluck.server.flow.payout.proof import show_root
from potluck.server.flow.settle.payouts import mark_paid as record_payouts
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.flow.settle.statements import sign_statement
from potluck.server.services import Services
from potluck.store.chain import roots
from potluck.store.chain.roots import RootOfEpoch
from potluck.store.database import Connection
from potluck.store.identity import audit
from potluck.store.ledger import epochs, payouts
from potluck.store.ledger.contribution import read_contribution
from potluck.store.ledger.epochs import NEWEST, Epoch
from potluck.store.ledger.payouts import PayoutPosition, RecordedPayout
from potluck.wire import routes
from potluck.wire.money.rewards import (
    ClaimantPage,
    ClaimantView,
    Contribution,
    DeviceContribution,
    EpochPage,
    EpochSpan,
    EpochView,
    MarkPaid,
    OwnEpoch,
    OwnEpochPage,
    PaidRow,
    PayoutPage,
    PayoutsMarked,
    PayoutView,
    Rewards,
    ServerSigner,
    SetRewardsTo,
    SignedStatement,
)
from potluck.wire.signing.epoch_statement import EpochStatement, StatementLine

SinceDay = Annotated[
    date | None, QueryParameter(name="since", required=False, description="The first day (UTC).")
]
EpochCursor = Annotated[int | None, QueryParameter(name="cursor", ge=1, le=NEWEST, required=False)]
PayoutCursor = Annotated[
    str | None, QueryParameter(name="cursor", min_length=1, max_length=200, required=False)
]
_USUAL = timedelta(days=30)
_OLDEST = date(2000, 1, 1)
_MAX_MARK_BYTES = 16 * 1024 * 1024
_BEHIND_ALL = PayoutPosition(datetime(9999, 1, 1, tzinfo=UTC))

# Examples.
_SPAN = EpochSpan(13, at(0, 0), at(23, 59, 59))
_CONTRIBUTION = Contribution(86_400.0, 7_400.0, 7_200.0, 3, 2_400_000, 48_000, 0)
_LINE = StatementLine(WALLET, 2_400_000, 48_000, 0, RewardsTo.PAYOUT, 2_352_000, 9_120_000)
_STATEMENT = SignedStatement(
    EpochStatement(12, at(0, 0), at(12, 0), is_of_pool=False, lines=[_LINE]),
    SHA256,
    OWNER,
    SIGNATURE,
)
_POOL_STATEMENT = SignedStatement(
    EpochStatement(12, at(0, 0), at(12, 0), is_of_pool=True, lines=[_LINE]),
    SHA256,
    OWNER,
    SIGNATURE,
)
_PAYOUT = PayoutView("bank 2026-11-16/7", WALLET, 2_352_000, "SEPA 4711", at(12, 30))

AREA: Final = Area(
    "rewards",
    "What machines contributed and earned, by epoch, and how it is paid. Amounts are integers in "
    f"millionths of a credit: `…_micro`. A statement is verified with the address that {ORIGIN} "
    "publishes.",
)


@AREA.operation(
    routes.REWARDS,
    Scope.ACCOUNT_READ,
    "See your rewards",
    response=Rewards(
        RewardsTo.PAYOUT,
        _SPAN,
        9_400_000,
        188_000,
        0,
        92_000,
        2_352_000,
        6_768_000,
        date(2026, 11, 16),
        _CONTRIBUTION,
        [DeviceContribution(NODE, "attic", DEVICE, "RTX 4090", _CONTRIBUTION)],
    ),
)
async def rewards(request: CallerRequest, services: Services, since: SinceDay = None) -> Rewards:
    """Returns what your devices offered, worked and earned, and where the rewards are: held back,
    in the open epoch, claimable or paid. The contribution covers the last 30 days by default."""
    today = services.clock.now().date()
    first = today - _USUAL if since is None else _checked_day(since)
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    async with services.database.transaction() as connection:
        standing = await epochs.standing(connection, request.user.id)
        newest = await epochs.page(connection, NEWEST, 1)
    async with services.database.transaction() as connection:
        contribution = await read_contribution(connection, request.user.id, begin)
    if contribution is None:
        raise InvalidInput(
            f"Adding up what your devices did since {first} takes too long.",
            "Choose a later first day, with `since`.",
        )
    total, devices = contribution
    span = [EpochSpan(epoch.number, epoch.starts_at, epoch.ends_at) for epoch in newest]
    return Rewards(
        standing.rewards_to,
        span[0] if span else None,
        standing.earned_micro,
        standing.fee_micro,
        standing.held_back_micro,
        standing.epoch_earned_micro - standing.epoch_fee_micro,
        standing.claimable_micro,
        standing.paid_micro,
        first,
        total,
        devices,
    )


@AREA.operation(
    routes.CHOOSE_REWARDS,
    Scope.ACCOUNT_WRITE,
    "Choose what happens to your rewards",
    request=SetRewardsTo(RewardsTo.PAYOUT),
    status_code=204,
)
async def choose_rewards(data: SetRewardsTo, request: CallerRequest, services: Services) -> None:
    """Chooses whether rewards stay credits, or are set aside for a payout when an epoch is closed.
    It applies to the open epoch; what is claimable stays so."""
    async with services.database.transaction() as connection:
        if await epochs.set_rewards_to(connection, request.user.id, data.rewards_to):
            await audit.append(
                connection,
                services.keys.audit,
                AuditKind.REWARDS_CHOSEN,
                request.user.id,
                request.user.id,
                {"rewards_to": data.rewards_to},
            )


@AREA.operation(
    routes.OWN_EPOCHS,
    Scope.ACCOUNT_READ,
    "List the epochs in which you earned",
    response=OwnEpochPage(
        [
            OwnEpoch(
                *(12, at(0, 0), at(12, 0), at(12, 0, 3), 2_400_000, 48_000, 0),
                *(RewardsTo.PAYOUT, 2_352_000, 9_120_000),
            )
        ]
    ),
)
async def own_epochs(
    request: CallerRequest, services: Services, cursor: EpochCursor = None, limit: Limit = 50
) -> OwnEpochPage:
    """Lists closed epochs in which you earned something, newest first."""
    async with services.database.transaction() as connection:
        rows = await epochs.of_account(connection, request.user.id, cursor or NEWEST, limit)
    views = [
        OwnEpoch(
            epoch.number,
            epoch.starts_at,
            epoch.ends_at,
            epoch.closed_at,
            epoch.reward.earned_micro,
            epoch.reward.fee_micro,
            epoch.reward.held_back_micro,
            epoch.reward.rewards_to,
            epoch.reward.amount_micro,
            epoch.reward.cumulative_micro,
        )
        for epoch in rows
    ]
    return OwnEpochPage(views, views[-1].number if len(views) == limit else None)


@AREA.operation(
    routes.OWN_STATEMENT,
    Scope.ACCOUNT_READ,
    "Get your signed statement of an epoch",
    response=_STATEMENT,
    errors=(NotFound,),
)
async def own_statement(epoch: str, request: CallerRequest, services: Services) -> SignedStatement:
    """Returns your part of a closed epoch, signed by the server. It is always the same."""
    return await sign_statement(services, _number(epoch), request.user.id)


@AREA.operation(
    routes.OWN_PAYOUTS, Scope.ACCOUNT_READ, "List payouts to you", response=PayoutPage([_PAYOUT])
)
async def own_payouts(
    request: CallerRequest, services: Services, cursor: PayoutCursor = None, limit: Limit = 50
) -> PayoutPage:
    """Lists what was paid to you outside the pool, newest first."""
    page = await _payouts(services, cursor, limit, request.user.id)
    return PayoutPage([_without_recorder(payout) for payout in page.payouts], page.next_cursor)


@AREA.operation(
    routes.SIGNER, OPEN, "Get the address that signs statements", response=ServerSigner(OWNER)
)
async def signer(services: Services) -> ServerSigner:
    """Returns the address of the key that signs statements and countersigns receipts. Keep it: both
    are verified with it offline."""
    return ServerSigner(server_signer(services).address)


@AREA.operation(
    routes.LIST_EPOCHS,
    Scope.ADMIN,
    "List epochs",
    response=EpochPage(
        [
            EpochView(
                *(12, at(0, 0), at(12, 0), at(12, 0, 3), 41, 98_000_000, 1_960_000),
                *(80_200_000, 2_941_000_000, SHA256),
            )
        ]
    ),
)
async def list_epochs(
    services: Services, cursor: EpochCursor = None, limit: Limit = 50
) -> EpochPage:
    """Lists the epochs of the pool with their totals, newest first; the first one is open."""
    async with services.database.transaction() as connection:
        rows = await epochs.page(connection, cursor or NEWEST, limit)
        carried = await roots.list_of_epochs(connection, [epoch.number for epoch in rows])
    views = [_epoch_view(epoch, carried) for epoch in rows]
    return EpochPage(views, views[-1].number if len(views) == limit else None)


@AREA.operation(
    routes.POOL_STATEMENT,
    Scope.ADMIN,
    "Get the signed statement of all accounts for an epoch",
    response=_POOL_STATEMENT,
    errors=(NotFound,),
)
async def pool_statement(epoch: str, services: Services) -> SignedStatement:
    """Returns every account's part of a closed epoch, signed by the server."""
    return await sign_statement(services, _number(epoch))


@AREA.operation(
    routes.LIST_CLAIMANTS,
    Scope.ADMIN,
    "List accounts that are to be paid",
    response=ClaimantPage([ClaimantView(ACCOUNT, WALLET, "Ada", 2_352_000, 6_768_000, 12)]),
)
async def list_claimants(
    services: Services, cursor: Cursor = None, limit: Limit = 100
) -> ClaimantPage:
    """Lists accounts with claimable rewards, and the first epoch that payouts do not cover."""
    check_cursor(cursor, "account")
    async with services.database.transaction() as connection:
        claimants = await payouts.list_claimants(connection, cursor or "", limit)
    views = [
        ClaimantView(
            claimant.account_id,
            claimant.address,
            claimant.label,
            claimant.claimable_micro,
            claimant.paid_micro,
            claimant.unpaid_since_epoch,
        )
        for claimant in claimants
    ]
    return ClaimantPage(views, views[-1].account_id if len(views) == limit else None)


@AREA.operation(
    routes.LIST_PAYOUTS, Scope.ADMIN, "List recorded payouts", response=PayoutPage([_PAYOUT])
)
async def list_payouts(
    services: Services, cursor: PayoutCursor = None, limit: Limit = 50
) -> PayoutPage:
    """Lists what was paid to all accounts outside the pool, newest first."""
    return await _payouts(services, cursor, limit)


@AREA.operation(
    routes.MARK_PAID,
    Scope.ADMIN,
    "Record payouts",
    request=MarkPaid([PaidRow("bank 2026-11-16/7", WALLET, 2_352_000, "SEPA 4711")]),
    response=PayoutsMarked(1, 0, 2_352_000),
    request_max_body_size=_MAX_MARK_BYTES,
    status_code=200,
)
async def mark_paid(data: MarkPaid, request: CallerRequest, services: Services) -> PayoutsMarked:
    """Records what was paid outside the pool. The id of each row is counted once, so the same
    request can be sent again. If a row is bad, nothing is recorded, and `bad` says why."""
    return await record_payouts(services, request.user.id, data.payouts)


async def _payouts(
    services: Services, cursor: str | None, limit: int, account_id: AccountId | None = None
) -> PayoutPage:
    async with services.database.transaction() as connection:
        before = _BEHIND_ALL
        if cursor is not None:
            before = await _position(connection, cursor, account_id)
        rows = await payouts.page(connection, before, limit, account_id)
    views = [_payout_view(recorded) for recorded in rows]
    return PayoutPage(views, views[-1].id if len(views) == limit else None)


async def _position(
    connection: Connection, cursor: str, account_id: AccountId | None
) -> PayoutPosition:
    is_readable = cursor.isascii() and cursor.isprintable()  # as every id of a payout
    position = await payouts.position(connection, cursor, account_id) if is_readable else None
    if position is None:
        raise bad_cursor()
    return position


def _payout_view(recorded: RecordedPayout) -> PayoutView:
    return PayoutView(
        recorded.payout.id,
        recorded.address,
        recorded.payout.amount_micro,
        recorded.payout.reference,
        recorded.recorded_at,
        recorded.recorded_by,
    )


def _without_recorder(payout: PayoutView) -> PayoutView:
    return PayoutView(
        payout.id, payout.wallet, payout.amount_micro, payout.reference, payout.recorded_at
    )


def _epoch_view(epoch: Epoch, carried: Sequence[RootOfEpoch]) -> EpochView:
    return EpochView(
        epoch.number,
        epoch.starts_at,
        epoch.ends_at,
        epoch.closed_at,
        epoch.accounts,
        epoch.earned_micro,
        epoch.fee_micro,
        epoch.amount_micro,
        epoch.cumulative_micro,
        None if epoch.statement_sha256 is None else epoch.statement_sha256.hex(),
        [show_root(root) for root in carried if root.root.epoch == epoch.number],
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= len(text) <= 9 and int(text) > 0):
        raise NotFound(f"{text[:64]!r} is not the number of an epoch.", "Count them from 1.")
    return int(text)


def _checked_day(day: date) -> date:
    if day < _OLDEST:
        raise InvalidInput("`since` is out of range.", "Choose a day near the present.")
    return day
