"""Accounts: who am I, and what the operator does for others."""

from typing import Any

from litestar import Controller, Request, get, post

from potluck.decide.settle import grant_entries
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, is_id
from potluck.server.api.access import require_operator
from potluck.server.auth.tokens import bearer_hash, new_bearer_token
from potluck.server.parts import Parts
from potluck.store import accounts, ledger
from potluck.store.accounts import Account
from potluck.wire import routes
from potluck.wire.consumer import AccountAdded, AddAccount, GrantCredit, Me


class AccountController(Controller):
    tags = ("accounts",)

    @get(routes.ME.template, operation_id="me")
    async def me(self, request: Request[Account, Any, Any], parts: Parts) -> Me:
        """The account behind the token, and its balance."""
        account = request.user
        async with parts.database.transaction() as connection:
            balance = await accounts.balance(connection, account.id)
        assert balance is not None, "every account has a balance row"
        return Me(
            account.id,
            account.name,
            account.is_operator,
            balance.available_micro,
            balance.held_micro,
        )

    @post(routes.ADD_ACCOUNT.template, operation_id="add_account")
    async def add(
        self, data: AddAccount, request: Request[Account, Any, Any], parts: Parts
    ) -> AccountAdded:
        """Makes an account. Its token is in this answer and nowhere else."""
        require_operator(request.user)
        token = new_bearer_token()
        async with parts.database.transaction() as connection:
            account_id = await accounts.add(connection, data.name, bearer_hash(token))
        return AccountAdded(account_id, data.name, token)

    @post(routes.GRANT_CREDIT.template, operation_id="grant_credit", status_code=204)
    async def grant(
        self,
        account_id: str,
        data: GrantCredit,
        request: Request[Account, Any, Any],
        parts: Parts,
    ) -> None:
        """Gives an account credit to spend."""
        require_operator(request.user)
        async with parts.database.transaction() as connection:
            if not is_id(account_id, "account") or not await accounts.balance(
                connection, AccountId(account_id)
            ):
                raise NotFound(
                    f"There is no account {account_id[:64]!r}.",
                    "Name it by its id, which starts with account_.",
                )
            entries = grant_entries(AccountId(account_id), data.amount_micro)
            await ledger.append(connection, entries)
