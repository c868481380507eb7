"""Invites, for admins: how strangers get in where registration is not open."""

from datetime import timedelta
from typing import Any

from litestar import Controller, Request, delete, get, post

from potluck.model.audit import AuditKind
from potluck.model.error import NotFound
from potluck.model.ids import is_id
from potluck.server.auth.caller import Caller
from potluck.server.auth.tokens import INVITE_PREFIX, new_secret, secret_hash
from potluck.server.parts import Parts
from potluck.store import audit, invites
from potluck.wire import routes
from potluck.wire.identity import InviteList, InviteMade, NewInvite


class InviteController(Controller):
    @get(routes.LIST_INVITES.template, operation_id="list_invites")
    async def list_invites(self, parts: Parts) -> InviteList:
        """The invites that can still be used."""
        async with parts.database.transaction() as connection:
            return InviteList(await invites.still_open(connection))

    @post(routes.MAKE_INVITE.template, operation_id="make_invite")
    async def make(
        self, data: NewInvite, request: Request[Caller, Any, Any], parts: Parts
    ) -> InviteMade:
        """An invite with roles, credit, uses and an end. The code is in this answer alone."""
        code, actor = new_secret(INVITE_PREFIX), request.user.id
        async with parts.database.transaction() as connection:
            invite = await invites.add(
                connection,
                secret_hash(code),
                data.roles,
                data.credit_micro,
                data.uses,
                actor,
                timedelta(seconds=data.expires_in),
            )
            told = {
                "roles": " ".join(invite.roles),
                "credit_micro": str(invite.credit_micro),
                "uses": str(data.uses),
            }
            await audit.append(
                connection, parts.keys.audit, AuditKind.INVITE_MADE, actor, invite.id, told
            )
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
