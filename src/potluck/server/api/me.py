"""One's own account: who am I, what am I here, where am I signed in, and with which keys."""

from datetime import timedelta
from typing import Any

from litestar import Controller, Request, delete, get, post, put
from msgspec.structs import replace

from potluck.model.account import SCOPES, Credential, Quota, Role
from potluck.model.audit import AuditKind
from potluck.model.error import Forbidden, InvalidInput, NotFound
from potluck.model.ids import AccountId, is_id
from potluck.server.accounts.roles import choose_roles
from potluck.server.api.idempotency import IdempotencyKey
from potluck.server.auth import idempotent_secret
from potluck.server.auth import sessions as auth_sessions
from potluck.server.auth.caller import Caller
from potluck.server.auth.tokens import KEY_PREFIX, secret_hash
from potluck.server.services import Parts
from potluck.server.settings import ServerSettings
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.identity import (
    accounts,
    api_keys,
    audit,
    sessions,
)
from potluck.wire import routes
from potluck.wire.identity import (
    ChooseRoles,
    KeyList,
    KeyMade,
    KeyView,
    Me,
    NewKey,
    SessionList,
)


class MeController(Controller):
    @get(routes.ME.template, operation_id="me")
    async def me(self, request: Request[Caller, Any, Any], parts: Parts) -> Me:
        """The account behind the credential, and its balance."""
        return await _me(parts, request.user)

    @put(routes.CHOOSE_ROLES.template, operation_id="choose_roles")
    async def choose_roles(
        self, data: ChooseRoles, request: Request[Caller, Any, Any], parts: Parts
    ) -> Me:
        """Consumer, provider, both or none: an account's own choice. Admin is not."""
        caller = request.user
        if Role.ADMIN in data.roles and Role.ADMIN not in caller.roles:
            raise Forbidden("Only an admin makes somebody an admin.", "Ask an admin of this pool.")
        changed = await choose_roles(parts, caller.id, frozenset(data.roles))
        return await _me(parts, replace(caller, account=changed))

    @get(routes.LIST_SESSIONS.template, operation_id="list_sessions")
    async def list_sessions(self, request: Request[Caller, Any, Any], parts: Parts) -> SessionList:
        """Where this wallet is signed in."""
        caller = request.user
        async with parts.database.transaction() as connection:
            found = await sessions.of_account(connection, caller.id, caller.credential_id)
        return SessionList(found)

    @delete(routes.END_SESSION.template, operation_id="end_session")
    async def end_session(
        self, session_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """Signs one of them out."""
        account = request.user.account
        if not is_id(session_id, "session"):
            raise _none("session", session_id)
        async with parts.database.transaction() as connection:
            ended = await auth_sessions.end_session(
                connection, parts, account, session_id, AuditKind.SESSION_ENDED
            )
        if not ended:
            raise _none("session", session_id)

    @get(routes.LIST_KEYS.template, operation_id="list_keys")
    async def list_keys(self, request: Request[Caller, Any, Any], parts: Parts) -> KeyList:
        """The API keys in force; what they are is shown when they are made, and never again."""
        async with parts.database.transaction() as connection:
            return KeyList(await api_keys.of_account(connection, request.user.id))

    @post(routes.MAKE_KEY.template, operation_id="make_key")
    async def make_key(
        self,
        data: NewKey,
        request: Request[Caller, Any, Any],
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> KeyMade:
        """A key for CI or a script. The secret is in this answer and nowhere else."""
        if beyond := sorted(set(data.scopes) - SCOPES[Credential.KEY]):
            raise InvalidInput(
                f"An API key can not carry {', '.join(beyond)}.",
                f"Choose from: {', '.join(sorted(SCOPES[Credential.KEY]))}.",
            )
        asked = idempotent_secret.asked(parts, request.user.id, "make_key", idempotency_key, data)
        secret = idempotent_secret.secret(parts, KEY_PREFIX, asked)
        async with parts.database.transaction() as connection:
            is_first = await idempotent_secret.is_first(connection, asked)
            key = None if asked is None else await api_keys.by_hash(connection, secret_hash(secret))
            if key is None and is_first:
                key = await _add_key(connection, parts, request.user.id, data, secret)
        if key is None:
            raise idempotent_secret.gone("API key")
        return KeyMade(secret, key)

    @delete(routes.REVOKE_KEY.template, operation_id="revoke_key")
    async def revoke_key(
        self, key_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """The key is worth nothing from now on."""
        caller = request.user
        async with parts.database.transaction() as connection:
            is_one = is_id(key_id, "key")
            if not (is_one and await api_keys.revoke(connection, key_id, caller.id)):
                raise _none("key", key_id)
            await audit.append(
                connection, parts.keys.audit, AuditKind.KEY_REVOKED, caller.id, key_id
            )


async def _add_key(
    connection: Connection, parts: Parts, account_id: AccountId, data: NewKey, secret: str
) -> KeyView:
    lasting = timedelta(seconds=data.expires_in)
    with idempotent_secret.once("API key"):
        key = await api_keys.add(
            connection, account_id, data.name, data.scopes, secret_hash(secret), lasting
        )
    told = {"name": data.name, "scopes": " ".join(key.scopes)}
    await audit.append(connection, parts.keys.audit, AuditKind.KEY_MADE, account_id, key.id, told)
    return key


async def _me(parts: Parts, caller: Caller) -> Me:
    async with parts.database.transaction() as connection:
        balance = await accounts.balance(connection, caller.id)
        quota = await accounts.quota(connection, caller.id)
        used_bytes = await blobs.used_bytes(connection, caller.id)
    assert balance is not None, "every account has a balance row"
    return Me(
        caller.id,
        caller.account.address,
        sorted(caller.roles),
        caller.credential,
        caller.usable,
        balance.available_micro,
        balance.held_micro,
        _in_force(quota, parts.settings),
        used_bytes,
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
    return NotFound(f"You have no {kind} {named[:64]!r}.", f"The list has their ids: {kind}_…")
