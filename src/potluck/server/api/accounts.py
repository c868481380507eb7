"""Accounts, for admins: list, roles, suspend and resume, quota, credit."""

from typing import Annotated, Any

from litestar import Controller, Request, get, post, put
from litestar.params import QueryParameter

from potluck.model.error import NotFound
from potluck.model.ids import AccountId, is_id
from potluck.server.accounts import roles
from potluck.server.api import pagination
from potluck.server.api.idempotency import IdempotencyKey
from potluck.server.auth import idempotent_secret
from potluck.server.auth.caller import Caller
from potluck.server.services import Parts
from potluck.store.identity import accounts
from potluck.wire import routes
from potluck.wire.identity import AccountPage, GrantCredit, SetQuota, SetRoles, Suspend

_MOST = 1000
Cursor = Annotated[str | None, QueryParameter(name="cursor", max_length=64, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=_MOST)]


class AccountController(Controller):
    @get(routes.LIST_ACCOUNTS.template, operation_id="list_accounts")
    async def list_accounts(
        self, parts: Parts, cursor: Cursor = None, limit: Limit = 100
    ) -> AccountPage:
        """Everybody in the pool, in the order in which they came."""
        pagination.check(cursor, "account")
        async with parts.database.transaction() as connection:
            found = await accounts.page(connection, cursor or "", limit + 1)
        more = len(found) > limit
        return AccountPage(found[:limit], found[limit - 1].id if more else None)

    @put(routes.SET_ROLES.template, operation_id="set_roles", status_code=204)
    async def set_roles(
        self, account_id: str, data: SetRoles, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """All roles of an account, admin among them."""
        named = account_id_of(account_id)
        await roles.change_roles(parts, request.user.id, named, frozenset(data.roles))

    @post(routes.SUSPEND_ACCOUNT.template, operation_id="suspend_account", status_code=204)
    async def suspend(
        self, account_id: str, data: Suspend, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """Its tokens stop at the next call, its tasks are cancelled, its nodes leave."""
        await roles.suspend(parts, request.user.id, account_id_of(account_id), data.reason)

    @post(routes.RESUME_ACCOUNT.template, operation_id="resume_account", status_code=204)
    async def resume(
        self, account_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """The account may come in again; it has to submit and register anew."""
        await roles.resume(parts, request.user.id, account_id_of(account_id))

    @put(routes.SET_QUOTA.template, operation_id="set_quota", status_code=204)
    async def set_quota(
        self, account_id: str, data: SetQuota, request: Request[Caller, Any, Any], parts: Parts
    ) -> None:
        """How much of the pool an account may have, and its weight among those who wait."""
        await roles.set_quota(parts, request.user.id, account_id_of(account_id), data)

    @post(routes.GRANT_CREDIT.template, operation_id="grant_credit", status_code=204)
    async def grant(
        self,
        account_id: str,
        data: GrantCredit,
        request: Request[Caller, Any, Any],
        parts: Parts,
        idempotency_key: IdempotencyKey = None,
    ) -> None:
        """Gives an account credit to spend; with an Idempotency-Key it is counted once."""
        named, actor = account_id_of(account_id), request.user.id
        asked = idempotent_secret.asked(
            parts, actor, "grant_credit", idempotency_key, (named, data)
        )
        await roles.grant(parts, actor, named, data.amount_micro, asked)


def account_id_of(text: str) -> AccountId:
    if not is_id(text, "account"):
        raise NotFound(
            f"There is no account {text[:64]!r}.", "Name it by its id, which starts with account_."
        )
    return AccountId(text)
