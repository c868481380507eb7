"""What admins do: accounts, invites, the audit, the encryption key."""

from collections.abc import Iterator, Sequence

from potluck.consumer.http.api_call import ask, idempotent, tell
from potluck.consumer.http.transport import Transport
from potluck.model.account import Quota, Role
from potluck.wire import routes
from potluck.wire.identity import (
    AccountPage,
    AccountView,
    AuditPage,
    AuditVerdict,
    GrantCredit,
    InviteList,
    InviteMade,
    InviteView,
    KeyRotation,
    NewInvite,
    RotationProgress,
    SetRoles,
    Suspend,
)


class Admin:
    """The server refuses all of it to anybody else. What makes something is not repeated."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def accounts(self) -> Iterator[AccountView]:
        """Everybody in the pool, in the order in which they came."""
        cursor: str | None = None
        while True:
            page = ask(self._transport, routes.LIST_ACCOUNTS, AccountPage, query={"cursor": cursor})
            yield from page.accounts
            cursor = page.next_cursor
            if cursor is None:
                return

    def set_roles(self, account_id: str, roles: Sequence[Role]) -> None:
        """All roles of an account, admin among them."""
        tell(self._transport, routes.SET_ROLES, _account(account_id), SetRoles(tuple(roles)))

    def suspend(self, account_id: str, reason: str = "") -> None:
        """The account can do nothing until it is resumed, and its tasks end."""
        tell(self._transport, routes.SUSPEND_ACCOUNT, _account(account_id), Suspend(reason))

    def resume(self, account_id: str) -> None:
        """The account may do everything again."""
        tell(self._transport, routes.RESUME_ACCOUNT, _account(account_id))

    def grant(self, account_id: str, amount_micro: int) -> None:
        """Repeated until it is heard, and counted once."""
        body, named = GrantCredit(amount_micro), _account(account_id)
        tell(self._transport, routes.GRANT_CREDIT, named, body, headers=idempotent())

    def set_quota(self, account_id: str, quota: Quota) -> None:
        """How much of the pool it may have; the whole of it, not what changed."""
        tell(self._transport, routes.SET_QUOTA, _account(account_id), quota)

    def invite(self, wanted: NewInvite) -> InviteMade:
        """The code is in the answer and nowhere else."""
        headers = idempotent()
        return ask(self._transport, routes.MAKE_INVITE, InviteMade, body=wanted, headers=headers)

    def invites(self) -> list[InviteView]:
        """Those that can still be used."""
        return ask(self._transport, routes.LIST_INVITES, InviteList).invites

    def revoke_invite(self, invite_id: str) -> None:
        """Nobody comes in with it any more."""
        tell(self._transport, routes.REVOKE_INVITE, {"invite_id": invite_id})

    def audit(self, before: int | None = None, limit: int | None = None) -> AuditPage:
        """What happened, the newest first; `next_cursor` asks for what was before."""
        query = {"cursor": before, "limit": limit}
        return ask(self._transport, routes.AUDIT, AuditPage, query=query)

    def verify_audit(self) -> AuditVerdict:
        """Whether any entry of the audit was changed or taken away."""
        return ask(self._transport, routes.VERIFY_AUDIT, AuditVerdict)

    def rotate_key(self, new_key: bool = False) -> RotationProgress:
        """A part of the rewriting; call it until nothing remains."""
        body = KeyRotation(new_key)
        return ask(self._transport, routes.ROTATE_KEY, RotationProgress, body=body)


def _account(account_id: str) -> dict[str, str]:
    return {"account_id": account_id}
