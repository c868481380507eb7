"""The caller of an operation: an account and its credential."""

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
        """The scopes of this credential that the account's roles allow."""
        return sorted(scope for scope in self.scopes if may_use(self.account, scope))


def may_use(account: Account, scope: Scope) -> bool:
    """Whether the account has the role for it."""
    role = ROLE_FOR.get(scope)
    return role is None or role in account.roles


def check(caller: Caller, scopes: Iterable[Scope]) -> None:
    """Raises Forbidden or AccountSuspended unless the caller may use one of these scopes."""
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
        f"Your credential does not have the scope {named}.", _scope_hint(credential, scopes)
    )


def _scope_hint(credential: Credential, scopes: Iterable[Scope]) -> str:
    """Suggests an API key only if one can have the scope."""
    if Scope.NODE in scopes:
        return "Only providers use this, with a node key: `potluck provide`."
    if credential is Credential.NODE:
        return "A node key is only for its provider; sign in with your wallet."
    if possible := [scope for scope in scopes if scope in SCOPES[Credential.KEY]]:
        return (
            f"Make a key with `potluck keys add NAME --scope {possible[-1]}`, and `--scope` for"
            " each other scope that it needs; or sign in with your wallet."
        )
    return (
        "No API key can have it. Sign in with your wallet: `potluck login`, or POST"
        " /v1/auth/challenge and /v1/auth/login."
    )


def lacks_role(role: Role) -> Forbidden:
    hint = f"`potluck roles both` adds it; `potluck roles {role}` makes it the only one."
    if role is Role.ADMIN:
        hint = "Ask an admin of this pool."
    return Forbidden(f"This requires the {role} role.", hint)


def suspended(account: Account) -> AccountSuspended:
    reason = f": {account.suspended_for}." if account.suspended_for else "."
    return AccountSuspended(
        f"The account {account.address} is suspended{reason}", "Ask an admin of this pool."
    )


def not_signed_in() -> NotSignedIn:
    """The same error for missing, malformed, unknown, expired and revoked credentials."""
    return NotSignedIn(
        "The request has no valid token.",
        "Sign in with `potluck login`; scripts send `Authorization: Bearer KEY` with an API key.",
    )
