"""The caller's own account: roles, sessions, keys."""

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from potluck.model.account import MOST_KEYS, SCOPES, Credential, Quota, Role, Scope
from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, Forbidden, InvalidInput, NotFound, QuotaExceeded
from potluck.model.ids import AccountId, is_id
from potluck.server.accounts import roles
from potluck.server.api.area import Area
from potluck.server.api.examples.names import (
    ACCOUNT,
    KEY,
    NODE,
    NODE_KEY,
    NODE_KEY_ID,
    ORIGIN,
    SESSION,
    SIGNATURE,
    WALLET,
    at,
)
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor, next_page
from potluck.server.api.http.parameters import CallerRequest, IdempotencyKey
from potluck.server.auth import delegation, idempotent_secret
from potluck.server.auth import sessions as auth_sessions
from potluck.server.auth.caller import Caller, may_use
from potluck.server.auth.tokens import KEY_PREFIX, secret_hash
from potluck.server.flow.lease import lease
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import Connection
from potluck.store.identity import accounts, api_keys, audit, node_keys, saved_views, sessions
from potluck.store.nodes import nodes
from potluck.store.nodes.nodes import Owner
from potluck.wire import routes
from potluck.wire.dashboard.saved_views import SavedView, SavedViews
from potluck.wire.identity import (
    ChooseRoles,
    Delegation,
    KeyList,
    KeyMade,
    KeysRevoked,
    KeyView,
    Me,
    NewKey,
    NewNodeKey,
    NodeKeyList,
    NodeKeyView,
    SessionList,
    SessionView,
)

# Examples.
_SCOPES = (Scope.TASKS_READ, Scope.TASKS_WRITE, Scope.POOL_READ)
_ME = Me(
    ACCOUNT,
    WALLET,
    [Role.CONSUMER, Role.PROVIDER],
    Credential.SESSION,
    [Scope.ACCOUNT_READ, Scope.ACCOUNT_WRITE, *_SCOPES],
    available_micro=4_250_000,
    held_micro=750_000,
    quota=Quota(1.0, 64, 1_000, 0, 100 * 2**30),
    used_blob_bytes=635_000,
)
_KEY = KeyView(KEY, "ci", list(_SCOPES), at(9, 30), at(9, 30).replace(year=2027))
_SAVED_VIEWS = SavedViews((SavedView("tasks", "What failed", "state=failed&kind=script"),))
_ISSUED = int(at(9, 30).timestamp())
_DELEGATION = Delegation(
    WALLET,
    NODE_KEY,
    ORIGIN,
    ("node",),
    _ISSUED,
    _ISSUED + 30 * 86_400,
    "7Jk3mQ9xT2vB6cR8wL5d",
    SIGNATURE,
)
_NODE_KEY = NodeKeyView(
    NODE_KEY_ID,
    NODE_KEY,
    "attic",
    ["node"],
    ORIGIN,
    at(9, 30),
    at(9, 30).replace(month=12),
    NODE,
    at(9, 31),
)

AREA: Final = Area(
    "account",
    "Your account: roles and credits, sessions, API keys, and the keys of the machines that work "
    "for your wallet.",
)


@AREA.operation(routes.ME, (Scope.ACCOUNT_READ, Scope.TASKS_READ), "See your account", response=_ME)
async def me(request: CallerRequest, services: Services) -> Me:
    """Returns the account behind the credential, and its balance."""
    return await _me(services, request.user)


@AREA.operation(
    routes.CHOOSE_ROLES,
    Scope.ACCOUNT_WRITE,
    "Choose your roles",
    request=ChooseRoles((Role.CONSUMER, Role.PROVIDER)),
    response=_ME,
    errors=(Conflict,),
)
async def choose_roles(data: ChooseRoles, request: CallerRequest, services: Services) -> Me:
    """Sets your roles: consumer, provider, both or none. Only an admin grants the admin role."""
    caller = request.user
    if Role.ADMIN in data.roles and Role.ADMIN not in caller.roles:
        raise Forbidden("Only an admin can grant the admin role.", "Ask an admin of this pool.")
    changed = await roles.choose_roles(services, caller.id, frozenset(data.roles))
    return await _me(services, replace(caller, account=changed))


@AREA.operation(
    routes.LIST_KEYS, Scope.ACCOUNT_WRITE, "List your API keys", response=KeyList([_KEY])
)
async def list_keys(
    request: CallerRequest, services: Services, cursor: Cursor = None, limit: Limit = 500
) -> KeyList:
    """Lists the active API keys, newest first. Only the response that made a key has its secret."""
    check_cursor(cursor, "key")
    async with services.database.transaction() as connection:
        keys = await api_keys.of_account(connection, request.user.id, cursor, limit)
    return KeyList(*next_page(keys, limit))


@AREA.operation(
    routes.MAKE_KEY,
    Scope.ACCOUNT_WRITE,
    "Make an API key",
    request=NewKey("ci", _SCOPES),
    response=KeyMade("potluck_key_not-a-real-one", _KEY),
    errors=(Conflict, QuotaExceeded),
)
async def make_key(
    data: NewKey, request: CallerRequest, services: Services, idempotency_key: IdempotencyKey = None
) -> KeyMade:
    """Makes a key for CI or a script. Only this response contains its secret."""
    if beyond := sorted(set(data.scopes) - SCOPES[Credential.KEY]):
        raise InvalidInput(
            f"An API key cannot have the scope {', '.join(beyond)}.",
            f"Choose from: {', '.join(sorted(SCOPES[Credential.KEY]))}.",
        )
    idempotent = idempotent_secret.idempotent_request(
        services, request.user.id, "make_key", idempotency_key, data
    )
    secret = idempotent_secret.secret(services, KEY_PREFIX, idempotent)
    async with services.database.transaction() as connection:
        is_first = await idempotent_secret.is_first(connection, idempotent)
        key = (
            None if idempotent is None else await api_keys.by_hash(connection, secret_hash(secret))
        )
        if key is None and is_first:
            key = await _add_key(connection, services, request.user.id, data, secret)
    if key is None:
        raise idempotent_secret.no_longer_valid("API key")
    lacking = [scope for scope in key.scopes if not may_use(request.user.account, scope)]
    return KeyMade(secret, key, lacking)


@AREA.operation(routes.REVOKE_KEY, Scope.ACCOUNT_WRITE, "Revoke an API key")
async def revoke_key(key_id: str, request: CallerRequest, services: Services) -> None:
    """Revokes an API key immediately."""
    caller = request.user
    async with services.database.transaction() as connection:
        is_one = is_id(key_id, "key")
        if not (is_one and await api_keys.revoke(connection, key_id, caller.id)):
            raise _none("key", key_id)
        await audit.append(
            connection, services.keys.audit, AuditKind.KEY_REVOKED, caller.id, key_id
        )


@AREA.operation(
    routes.REVOKE_KEYS,
    Scope.ACCOUNT_WRITE,
    "Revoke all API keys",
    response=KeysRevoked([KEY]),
    status_code=200,
)
async def revoke_keys(request: CallerRequest, services: Services) -> KeysRevoked:
    """Revokes all API keys of the account immediately."""
    account_id = request.user.id
    async with services.database.transaction() as connection:
        revoked = await api_keys.revoke_all(connection, account_id)
        if revoked:
            detail = {"count": str(len(revoked)), "keys": " ".join(revoked[:MOST_KEYS])}
            audited = (AuditKind.KEYS_REVOKED, account_id, account_id, detail)
            await audit.append(connection, services.keys.audit, *audited)
    return KeysRevoked(revoked)


@AREA.operation(
    routes.LIST_SESSIONS,
    Scope.ACCOUNT_WRITE,
    "List your sessions",
    response=SessionList([SessionView(SESSION, "laptop", at(9, 30), at(9, 42), at(21, 30), True)]),
)
async def list_sessions(
    request: CallerRequest, services: Services, cursor: Cursor = None, limit: Limit = 500
) -> SessionList:
    """Lists the active sessions of this wallet, newest first."""
    check_cursor(cursor, "session")
    caller = request.user
    async with services.database.transaction() as connection:
        active = await sessions.of_account(
            connection, caller.id, caller.credential_id, cursor, limit
        )
    return SessionList(*next_page(active, limit))


@AREA.operation(routes.END_SESSION, Scope.ACCOUNT_WRITE, "End a session")
async def end_session(session_id: str, request: CallerRequest, services: Services) -> None:
    """Signs one session out."""
    account = request.user.account
    if not is_id(session_id, "session"):
        raise _none("session", session_id)
    async with services.database.transaction() as connection:
        ended = await auth_sessions.end_session(
            connection, services, account, session_id, AuditKind.SESSION_ENDED
        )
    if not ended:
        raise _none("session", session_id)


@AREA.operation(
    routes.LIST_NODE_KEYS,
    Scope.ACCOUNT_WRITE,
    "List your node keys",
    response=NodeKeyList([_NODE_KEY]),
)
async def list_node_keys(
    request: CallerRequest, services: Services, cursor: Cursor = None, limit: Limit = 500
) -> NodeKeyList:
    """Lists the active node keys with their machine, node and expiry, newest first."""
    check_cursor(cursor, "nodekey")
    async with services.database.transaction() as connection:
        keys = await node_keys.of_account(connection, request.user.id, cursor, limit)
    return NodeKeyList(*next_page(keys, limit))


@AREA.operation(
    routes.AUTHORISE_NODE_KEY,
    Scope.ACCOUNT_WRITE,
    "Authorise a node key",
    request=NewNodeKey(_DELEGATION, "attic"),
    response=_NODE_KEY,
    errors=(Conflict,),
)
async def authorise_node_key(
    data: NewNodeKey, request: CallerRequest, services: Services
) -> NodeKeyView:
    """Authorises a key to work for your wallet, by an EIP-712 signature. Repeat it to renew."""
    now, account = services.clock.now(), request.user.account
    word = await delegation.verify(services, data.delegation, account.address, now)
    async with services.database.transaction() as connection:
        await delegation.take(connection, services, word, now)
        return await delegation.authorise(connection, services, account, word, data.machine)


@AREA.operation(routes.REVOKE_NODE_KEY, Scope.ACCOUNT_WRITE, "Revoke a node key")
async def revoke_node_key(node_key_id: str, request: CallerRequest, services: Services) -> None:
    """Revokes a node key immediately. Its node leaves, and its attempts go back to the queue."""
    caller = request.user
    async with services.database.transaction() as connection:
        is_one = is_id(node_key_id, "nodekey")
        key = await node_keys.revoke(connection, node_key_id, caller.id) if is_one else None
        if key is None:
            raise NotFound(
                f"You have no node key {node_key_id[:64]!r}.", "`potluck provider keys` lists them."
            )
        await audit.append(
            connection,
            services.keys.audit,
            AuditKind.NODE_KEY_REVOKED,
            caller.id,
            node_key_id,
            {"key": key},
        )
        node_id = await nodes.find_by_key(connection, node_key_id)
    if node_id is not None:
        await lease.leave(services, Owner(caller.id, node_key_id), node_id)


@AREA.operation(
    routes.LIST_VIEWS, Scope.ACCOUNT_READ, "List your saved views", response=_SAVED_VIEWS
)
async def list_views(request: CallerRequest, services: Services) -> SavedViews:
    """Returns the views that you have saved in the dashboard."""
    async with services.database.statement() as connection:
        return await saved_views.read(connection, request.user.id)


@AREA.operation(
    routes.SAVE_VIEWS,
    Scope.ACCOUNT_WRITE,
    "Save your views",
    request=_SAVED_VIEWS,
    response=_SAVED_VIEWS,
)
async def save_views(data: SavedViews, request: CallerRequest, services: Services) -> SavedViews:
    """Replaces all views that you have saved."""
    async with services.database.statement() as connection:
        await saved_views.write(connection, request.user.id, data)
    return data


async def _add_key(
    connection: Connection, services: Services, account_id: AccountId, data: NewKey, secret: str
) -> KeyView:
    if await api_keys.count(connection, account_id) >= MOST_KEYS:
        raise QuotaExceeded(
            f"An account can have at most {MOST_KEYS} API keys.",
            "Revoke those that are not needed: `potluck keys revoke KEY_ID`, or all with `--all`.",
        )
    lasting = timedelta(seconds=data.expires_in)
    with idempotent_secret.once("API key"):
        key = await api_keys.add(
            connection, account_id, data.name, data.scopes, secret_hash(secret), lasting
        )
    details = {"name": data.name, "scopes": " ".join(key.scopes)}
    await audit.append(
        connection, services.keys.audit, AuditKind.KEY_MADE, account_id, key.id, details
    )
    return key


async def _me(services: Services, caller: Caller) -> Me:
    async with services.database.statement() as connection:
        summary = await accounts.summary(connection, caller.id)
    return Me(
        caller.id,
        caller.account.address,
        sorted(caller.roles),
        caller.credential,
        caller.usable,
        summary.balance.available_micro,
        summary.balance.held_micro,
        _in_force(summary.quota, services.settings),
        summary.used_bytes,
    )


def _in_force(own: Quota, settings: ServerSettings) -> Quota:
    running, queued, priority = own.max_running_devices, own.max_queued_tasks, own.max_priority
    return Quota(
        own.weight,
        settings.quota_running_devices if running is None else running,
        settings.quota_queued_tasks if queued is None else queued,
        settings.quota_priority if priority is None else priority,
        settings.quota_blob_bytes if own.max_blob_bytes is None else own.max_blob_bytes,
    )


def _none(kind: str, named: str) -> NotFound:
    return NotFound(
        f"You have no {kind} {named[:64]!r}.", f"List your {kind}s to see their ids ({kind}_…)."
    )
