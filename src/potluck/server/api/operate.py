"""Administration, and health checks."""

from datetime import timedelta
from typing import Annotated, Final

from litestar import Response
from litestar.params import QueryParameter

from potluck import __version__
from potluck.model.account import Quota, Role, Scope
from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, NotFound
from potluck.model.ids import AccountId, is_id
from potluck.server.accounts import roles
from potluck.server.api.area import OPEN, Area
from potluck.server.api.examples.names import ACCOUNT, INVITE, WALLET, at
from potluck.server.api.http.pagination import Cursor, Limit, LongLimit, check_cursor, next_page
from potluck.server.api.http.parameters import CallerRequest, IdempotencyKey
from potluck.server.api.http.response import EncodedResponse
from potluck.server.auth import idempotent_secret
from potluck.server.auth.tokens import INVITE_PREFIX, secret_hash
from potluck.server.encryption import rotation
from potluck.server.health import NOT_READY, STOPPING
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import accounts, invites
from potluck.store.identity import audit as audit_log
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth, ServerReadiness
from potluck.wire.identity import (
    AccountPage,
    AccountView,
    AuditEntry,
    AuditPage,
    AuditVerdict,
    GrantCredit,
    InviteList,
    InviteMade,
    InviteView,
    KeyRotation,
    NewInvite,
    RotationProgress,
    SetQuota,
    SetRoles,
    Suspend,
)

_LAST = 2**62
EntryCursor = Annotated[int, QueryParameter(name="cursor", ge=1, le=_LAST)]

# Examples.
_ACCOUNT = AccountView(
    ACCOUNT,
    WALLET,
    [Role.CONSUMER],
    at(9, 30),
    available_micro=4_250_000,
    held_micro=750_000,
    quota=Quota(2.0, 8),
    label="Ada (robotics)",
)
_INVITE = InviteView(
    *(INVITE, [Role.CONSUMER], 5_000_000, 10, at(9, 0), at(9, 0).replace(day=23)),
    "the summer school",
)
_HEAD = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_METRICS = "# TYPE potluck_leading gauge\npotluck_leading 1.0\n"

AREA: Final = Area(
    "operate",
    "For admins: accounts and roles, invites, credit, quotas, the audit log. For load balancers: "
    "whether the server is alive, and whether it is ready.",
)


@AREA.operation(
    routes.LIST_ACCOUNTS,
    Scope.ADMIN,
    "List the accounts",
    response=AccountPage([_ACCOUNT], ACCOUNT),
)
async def list_accounts(
    services: Services, cursor: Cursor = None, limit: LongLimit = 100
) -> AccountPage:
    """Lists all accounts, oldest first."""
    check_cursor(cursor, "account")
    async with services.database.transaction() as connection:
        rows = await accounts.page(connection, cursor or "", limit + 1)
    more = len(rows) > limit
    return AccountPage(rows[:limit], rows[limit - 1].id if more else None)


@AREA.operation(
    routes.SET_ROLES,
    Scope.ADMIN,
    "Set the roles of an account",
    request=SetRoles((Role.CONSUMER, Role.ADMIN)),
    errors=(Conflict,),
    status_code=204,
)
async def set_roles(
    account_id: str, data: SetRoles, request: CallerRequest, services: Services
) -> None:
    """Sets all roles of an account, including admin."""
    named = account_id_of(account_id)
    await roles.change_roles(services, request.user.id, named, frozenset(data.roles))


@AREA.operation(
    routes.SET_QUOTA,
    Scope.ADMIN,
    "Set the quota of an account",
    request=SetQuota(2.0, 8),
    status_code=204,
)
async def set_quota(
    account_id: str, data: SetQuota, request: CallerRequest, services: Services
) -> None:
    """Sets how much of the pool an account may use, and its fair-share weight."""
    await roles.set_quota(services, request.user.id, account_id_of(account_id), data)


@AREA.operation(
    routes.GRANT_CREDIT,
    Scope.ADMIN,
    "Grant credit",
    request=GrantCredit(5_000_000),
    errors=(Conflict,),
    status_code=204,
)
async def grant_credit(
    account_id: str,
    data: GrantCredit,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Grants credit to an account. With an Idempotency-Key it is counted once."""
    named, actor = account_id_of(account_id), request.user.id
    idempotent = idempotent_secret.idempotent_request(
        services, actor, "grant_credit", idempotency_key, (named, data)
    )
    await roles.grant(services, actor, named, data.amount_micro, idempotent)


@AREA.operation(
    routes.SUSPEND_ACCOUNT,
    Scope.ADMIN,
    "Suspend an account",
    request=Suspend("requested by its owner"),
    errors=(Conflict,),
    status_code=204,
)
async def suspend_account(
    account_id: str, data: Suspend, request: CallerRequest, services: Services
) -> None:
    """Suspends an account: its tokens stop working, its tasks are cancelled, its nodes leave."""
    await roles.suspend(services, request.user.id, account_id_of(account_id), data.reason)


@AREA.operation(routes.RESUME_ACCOUNT, Scope.ADMIN, "Resume a suspended account", status_code=204)
async def resume_account(account_id: str, request: CallerRequest, services: Services) -> None:
    """Lets the account sign in again. Cancelled tasks and removed nodes do not come back."""
    await roles.resume(services, request.user.id, account_id_of(account_id))


@AREA.operation(
    routes.LIST_INVITES, Scope.ADMIN, "List the open invites", response=InviteList([_INVITE])
)
async def list_invites(services: Services, cursor: Cursor = None, limit: Limit = 500) -> InviteList:
    """Lists the invites that can still be used, newest first."""
    check_cursor(cursor, "invite")
    async with services.database.transaction() as connection:
        open_invites = await invites.list_open(connection, cursor, limit)
    return InviteList(*next_page(open_invites, limit))


@AREA.operation(
    routes.MAKE_INVITE,
    Scope.ADMIN,
    "Make an invite",
    request=NewInvite(credit_micro=5_000_000, uses=10, note="the summer school"),
    response=InviteMade("potluck_invite_not-a-real-one", _INVITE),
    errors=(Conflict,),
)
async def make_invite(
    data: NewInvite,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> InviteMade:
    """Makes an invite with roles, credit, uses and an expiry. Only this response has its code."""
    actor = request.user.id
    idempotent = idempotent_secret.idempotent_request(
        services, actor, "make_invite", idempotency_key, data
    )
    code = idempotent_secret.secret(services, INVITE_PREFIX, idempotent)
    async with services.database.transaction() as connection:
        is_first = await idempotent_secret.is_first(connection, idempotent)
        has_key = idempotent is not None
        invite = await invites.by_hash(connection, secret_hash(code)) if has_key else None
        if invite is None and is_first:
            invite = await _add_invite(connection, services, actor, data, code)
    if invite is None:
        raise idempotent_secret.no_longer_valid("invite")
    return InviteMade(code, invite)


@AREA.operation(routes.REVOKE_INVITE, Scope.ADMIN, "Revoke an invite")
async def revoke_invite(invite_id: str, request: CallerRequest, services: Services) -> None:
    """Revokes an invite. Accounts that it created stay."""
    async with services.database.transaction() as connection:
        is_one = is_id(invite_id, "invite")
        if not (is_one and await invites.revoke(connection, invite_id)):
            raise NotFound(
                f"No usable invite has the id {invite_id[:64]!r}.",
                "`potluck admin invites` lists them.",
            )
        await audit_log.append(
            connection, services.keys.audit, AuditKind.INVITE_REVOKED, request.user.id, invite_id
        )


@AREA.operation(
    routes.AUDIT,
    Scope.ADMIN,
    "Read the audit log",
    response=AuditPage(
        [AuditEntry(42, at(9, 30), AuditKind.INVITE_MADE, ACCOUNT, INVITE, {"uses": "10"}, _HEAD)],
        42,
    ),
)
async def audit(
    services: Services, cursor: EntryCursor = _LAST, limit: LongLimit = 100
) -> AuditPage:
    """Lists audit entries, newest first."""
    async with services.database.transaction() as connection:
        entries = await audit_log.newest(connection, cursor, limit)
    goes_on = bool(entries) and entries[-1].number > 1
    return AuditPage(entries, entries[-1].number if goes_on else None)


@AREA.operation(
    routes.VERIFY_AUDIT,
    Scope.ADMIN,
    "Verify the audit log",
    response=AuditVerdict(True, 42, _HEAD),
    status_code=200,
    is_timed=False,
)
async def verify_audit(services: Services) -> AuditVerdict:
    """Verifies the hash chain from its start, and reports where it breaks."""
    async with services.database.transaction() as connection:
        return await audit_log.verify(connection, services.keys.audit)


@AREA.operation(
    routes.ROTATE_KEY,
    Scope.ADMIN,
    "Rotate the encryption key",
    request=KeyRotation(True),
    response=RotationProgress("k2", 0, 128),
    errors=(Conflict,),
    status_code=200,
    is_timed=False,
)
async def rotate_key(
    data: KeyRotation, request: CallerRequest, services: Services
) -> RotationProgress:
    """Makes a new key, or re-encrypts a batch of older values; call until none remains."""
    if data.new_key:
        return await rotation.begin(services, request.user.id)
    return await rotation.rewrite(services, request.user.id)


@AREA.operation(routes.HEALTHZ, OPEN, "Is the process alive?", response=ServerHealth("ok", "0.2.0"))
async def healthz() -> ServerHealth:
    """Answers while the process is alive."""
    return ServerHealth("ok", __version__)


@AREA.operation(
    routes.READYZ,
    OPEN,
    "Is the server ready?",
    response=ServerReadiness(
        "degraded",
        "0.2.0",
        {"database": "ok", "leader": "ok", "live": "does not answer", "scheduler": "unknown"},
        instance="5f3a9c1e2b7d4086",
        leader="5f3a9c1e2b7d4086",
        free_gib=182,
        clock_skew_seconds=0.1,
    ),
)
async def readyz(services: Services) -> Response[ServerReadiness]:
    """Returns the state of each part as of the last check, about a second ago.

    The status is 503 only if requests would fail, or will soon: `stopping`. `degraded` has status
    200: requests work, perhaps more slowly, and taking the server out of rotation would not help.
    """
    readiness = services.health.shown
    if readiness.status in (NOT_READY, STOPPING):
        return EncodedResponse(readiness, status_code=503, headers={"Retry-After": "1"})
    return EncodedResponse(readiness)


@AREA.operation(
    routes.METRICS,
    Scope.METRICS_READ,
    "Read the metrics",
    response=_METRICS,
    errors=(NotFound,),
    is_open_locally=True,
    media_type="text/plain",
)
async def metrics(request: CallerRequest, services: Services) -> Response[bytes]:
    """Returns the metrics of this instance for Prometheus, in OpenMetrics if the client accepts it.

    A server that only its own machine can reach requires no credential for it.
    """
    if not services.settings.metrics:
        raise NotFound(
            "This server keeps no metrics.", "Its operator has set POTLUCK_METRICS to false."
        )
    text = await services.metrics.render(",".join(request.headers.getall("accept", [])))
    # A header, since a text's media type gets a second charset.
    return Response(text.body, headers={"content-type": text.content_type})


def account_id_of(text: str) -> AccountId:
    if not is_id(text, "account"):
        raise NotFound(f"There is no account {text[:64]!r}.", "Account ids start with account_.")
    return AccountId(text)


async def _add_invite(
    connection: Connection, services: Services, actor: AccountId, data: NewInvite, code: str
) -> InviteView:
    lasting = timedelta(seconds=data.expires_in)
    with idempotent_secret.once("invite"):
        invite = await invites.add(
            *(connection, secret_hash(code), data.roles, data.credit_micro, data.uses, actor),
            *(lasting, data.note),
        )
    details = {
        "roles": " ".join(invite.roles),
        "credit_micro": str(invite.credit_micro),
        "uses": str(data.uses),
        **({"note": data.note} if data.note else {}),
    }
    await audit_log.append(
        connection, services.keys.audit, AuditKind.INVITE_MADE, actor, invite.id, details
    )
    return invite
