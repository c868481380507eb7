"""Who may do what: the roles of an account and the scopes of what it signs in with."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import SmallCount


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
    NODES_WRITE = "nodes:write"
    NODE = "node"
    ADMIN = "admin"


class Credential(StrEnum):
    """How somebody signed in."""

    SESSION = "session"  # a wallet's signature, kept alive by refresh tokens
    KEY = "key"  # an API key
    NODE = "node"  # a node key that a wallet authorised


class Quota(Struct, frozen=True):
    """How much of the pool an account may have."""

    # Of what several accounts want at the same time, this one gets so many parts.
    weight: Annotated[float, Meta(ge=0.001, le=1_000)] = 1.0
    max_running_devices: SmallCount | None = None  # none: as the server's settings say
    max_queued_tasks: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None  # none: likewise
    max_priority: Annotated[int, Meta(ge=-100, le=100)] | None = None  # none: likewise
    max_blob_bytes: Annotated[int, Meta(ge=0, le=2**62)] | None = None  # none: likewise


# What each credential can carry at most. An API key carries what its maker chose of it.
SCOPES: dict[Credential, frozenset[Scope]] = {
    Credential.SESSION: frozenset(Scope) - {Scope.NODE},
    Credential.KEY: frozenset(
        {
            Scope.TASKS_READ,
            Scope.TASKS_WRITE,
            Scope.POOL_READ,
            Scope.ACCOUNT_READ,
            Scope.NODES_WRITE,
        }
    ),
    Credential.NODE: frozenset({Scope.NODE}),
}

# The role that an account needs to use a scope at all.
ROLE_FOR: dict[Scope, Role] = {
    Scope.TASKS_READ: Role.CONSUMER,
    Scope.TASKS_WRITE: Role.CONSUMER,
    Scope.NODES_WRITE: Role.PROVIDER,
    Scope.NODE: Role.PROVIDER,
    Scope.ADMIN: Role.ADMIN,
}
