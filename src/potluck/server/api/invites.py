"""Invites, for admins: how strangers get in where registration is not open."""

from datetime import timedelta
from typing import Any

from litestar import Controller, Request, delete, get, post

from potluck.model.audit import AuditKind
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, is_id
from potluck.server.api.idempotency import IdempotencyKey
from potluck.server.auth import idempotent_secret
from potluck.server.auth.caller import Caller
from potluck.server.auth.tokens import INVITE_PREFIX, secret_hash
from potluck.server.services import Parts
from potluck.store.database import Connection
from potluck.store.identity import audit, invites
from potluck.wire import routes
from potluck.wire.identity import InviteList, InviteMade, InviteView, NewInvite


class InviteController(Controller):
    @get(routes.LIST_INVITES.template, operation_id="list_invites")
    async def list_invites(self, parts: Parts) -> InviteList:
        """The invites that can still be used."""
        async with parts.database.transaction() as connection:
            return InviteList(await invites.still_open(connection))

    @post(routes.MAKE_INVITE.template, operation_id="make_invite")
    async def make(
        self,
        data: NewInvite,
        request: Request[Caller, Any, Any],
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> InviteMade:
        """An invite with roles, credit, uses and an end. The code is in this answer alone."""
        actor = request.user.id
        asked = idempotent_secret.asked(parts, actor, "make_invite", idempotency_key, data)
        code = idempotent_secret.secret(parts, INVITE_PREFIX, asked)
        async with parts.database.transaction() as connection:
            is_first = await idempotent_secret.is_first(connection, asked)
            known = asked is not None
            invite = await invites.by_hash(connection, secret_hash(code)) if known else None
            if invite is None and is_first:
                invite = await _add(connection, parts, actor, data, code)
        if invite is None:
            raise idempotent_secret.gone("invite")
        return InviteMade(code, invite)

    @delete(routes.REVOKE_INVITE.template, operation_id="revoke_invite")
    async def revoke(
        self, invite_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """Nobody gets in with it any more; who did, stays."""
        async with parts.database.transaction() as connection:
            is_one = is_id(invite_id, "invite")
            if not (is_one and await invites.revoke(connection, invite_id)):
                raise NotFound(
                    f"There is no invite {invite_id[:64]!r} that can still be used.",
                    "potluck admin invites lists them.",
                )
            await audit.append(
                connection,
                parts.keys.audit,
                AuditKind.INVITE_REVOKED,
                request.user.id,
                invite_id,
            )


async def _add(
    connection: Connection, parts: Parts, actor: AccountId, data: NewInvite, code: str
) -> InviteView:
    lasting = timedelta(seconds=data.expires_in)
    with idempotent_secret.once("invite"):
        invite = await invites.add(
            connection, secret_hash(code), data.roles, data.credit_micro, data.uses, actor, lasting
        )
    told = {
        "roles": " ".join(invite.roles),
        "credit_micro": str(invite.credit_micro),
        "uses": str(data.uses),
    }
    await audit.append(connection, parts.keys.audit, AuditKind.INVITE_MADE, actor, invite.id, told)
    return invite
