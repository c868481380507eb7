"""Who may do what: the roles of an account and the scopes of what it signs in with."""

from enum import StrEnum


class Role(StrEnum):
    """What an account is in this pool. The first two are its own choice, the third is granted."""

    CONSUMER = "consumer"
    PROVIDER = "provider"
    ADMIN = "admin"


class Registration(StrEnum):
    """Who gets an account by signing in for the first time."""

    OPEN = "open"  # every wallet
    INVITE = "invite"  # a wallet that brings an invite
    CLOSED = "closed"  # nobody


class Scope(StrEnum):
    """What a credential may be used for. A route names one; a credential carries some."""

    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    POOL_READ = "pool:read"
    ACCOUNT_READ = "account:read"
    ACCOUNT_WRITE = "account:write"
    NODE = "node"
    ADMIN = "admin"


class Credential(StrEnum):
    """How somebody signed in."""

    SESSION = "session"  # a wallet's signature, kept alive by refresh tokens
    KEY = "key"  # an API key
    NODE = "node"  # a node key that a wallet authorised


# What each credential can carry at most. An API key carries what its maker chose of it.
SCOPES: dict[Credential, frozenset[Scope]] = {
    Credential.SESSION: frozenset(Scope) - {Scope.NODE},
    Credential.KEY: frozenset(
        {Scope.TASKS_READ, Scope.TASKS_WRITE, Scope.POOL_READ, Scope.ACCOUNT_READ}
    ),
    Credential.NODE: frozenset({Scope.NODE}),
}

# The role that an account needs to use a scope at all.
ROLE_FOR: dict[Scope, Role] = {
    Scope.TASKS_READ: Role.CONSUMER,
    Scope.TASKS_WRITE: Role.CONSUMER,
    Scope.NODE: Role.PROVIDER,
    Scope.ADMIN: Role.ADMIN,
}
