"""Who calls: an account, and what it signed in with."""

from collections.abc import Iterable

from msgspec import Struct

from potluck.model.account import ROLE_FOR, SCOPES, Credential, Role, Scope
from potluck.model.error import AccountSuspended, Forbidden, NotSignedIn
from potluck.model.ids import AccountId
from potluck.store.identity.accounts import Account


class Caller(Struct, frozen=True):
    account: Account
    credential: Credential
    credential_id: str  # of the session, the API key or the node key
    scopes: frozenset[Scope]

    @property
    def id(self) -> AccountId:
        return self.account.id

    @property
    def roles(self) -> frozenset[Role]:
        return self.account.roles

    @property
    def usable(self) -> list[Scope]:
        """The scopes that this credential carries and the account's roles allow."""
        needed = {scope: ROLE_FOR.get(scope) for scope in self.scopes}
        return sorted(scope for scope, role in needed.items() if role is None or role in self.roles)


def check(caller: Caller, scopes: Iterable[Scope]) -> None:
    """Raises what keeps this caller from using any of these scopes."""
    account = caller.account
    if account.suspended_at is not None:
        raise suspended(account)
    carried = [scope for scope in scopes if scope in caller.scopes]
    if not carried:
        raise lacks_scope(caller.credential, scopes)
    roles = [ROLE_FOR.get(scope) for scope in carried]
    if not any(role is None or role in account.roles for role in roles):
        raise lacks_role(next(role for role in roles if role is not None))


def lacks_scope(credential: Credential, scopes: Iterable[Scope]) -> Forbidden:
    named = " or ".join(f"`{scope}`" for scope in scopes)
    return Forbidden(
        f"What you signed in with does not cover {named}.", _scope_hint(credential, scopes)
    )


def _scope_hint(credential: Credential, scopes: Iterable[Scope]) -> str:
    """Nobody is sent for a key that can not be made."""
    if Scope.NODE in scopes:
        return "This is for providers: `potluck provide` does it with its node key."
    if credential is Credential.NODE:
        return "A node key is for its provider alone; sign in with your wallet."
    if possible := [scope for scope in scopes if scope in SCOPES[Credential.KEY]]:
        return (
            f"Make a key that does, `potluck keys add NAME --scope {possible[-1]}`, with"
            " `--scope` for each of what else it is for; or sign in with your wallet."
        )
    return (
        "No API key can. Sign in with your wallet: `potluck login`, or POST /v1/auth/challenge"
        " and /v1/auth/login."
    )


def lacks_role(role: Role) -> Forbidden:
    return Forbidden(_ONLY[role], _ROLE_HINTS[role])


def suspended(account: Account) -> AccountSuspended:
    reason = f": {account.suspended_for}." if account.suspended_for else "."
    return AccountSuspended(
        f"The account {account.address} is suspended{reason}", "Ask an admin of this pool."
    )


def not_signed_in() -> NotSignedIn:
    """The same sentence for a missing, a malformed, an unknown, an old and a revoked one."""
    return NotSignedIn(
        "No valid token came with the request.",
        "Sign in with `potluck login`; scripts send `Authorization: Bearer KEY` with an API key.",
    )


_ONLY = {
    Role.CONSUMER: "Only a consumer may do that.",
    Role.PROVIDER: "Only a provider may do that.",
    Role.ADMIN: "Only an admin may do that.",
}
_ROLE_HINTS = {
    Role.CONSUMER: "Become one: `potluck roles consumer`.",
    Role.PROVIDER: "Become one: `potluck roles provider`.",
    Role.ADMIN: "Ask an admin of this pool.",
}
