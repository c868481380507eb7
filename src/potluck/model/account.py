"""The roles of an account and the scopes of its credentials."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import SmallCount


class Role(StrEnum):
    """The role of an account. An account chooses the first two; an admin grants admin."""

    CONSUMER = "consumer"
    PROVIDER = "provider"
    ADMIN = "admin"


class Registration(StrEnum):
    """Which wallets get an account when they first sign in."""

    OPEN = "open"  # every wallet
    INVITE = "invite"  # wallets with an invite
    CLOSED = "closed"  # none


class Scope(StrEnum):
    """What a credential may be used for. An operation requires one scope of several."""

    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    POOL_READ = "pool:read"
    ACCOUNT_READ = "account:read"
    ACCOUNT_WRITE = "account:write"
    NODES_WRITE = "nodes:write"
    NODE = "node"
    ADMIN = "admin"


class Credential(StrEnum):
    """How the caller signed in."""

    SESSION = "session"  # a wallet's signature, extended by refresh tokens
    KEY = "key"  # an API key
    NODE = "node"  # a node key that a wallet authorised


class Quota(Struct, frozen=True):
    """How much of the pool an account may use. Without a value, the server's setting applies."""

    # The fair-share weight among accounts that compete for devices.
    weight: Annotated[float, Meta(ge=0.001, le=1_000)] = 1.0
    max_running_devices: SmallCount | None = None
    max_queued_tasks: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    max_priority: Annotated[int, Meta(ge=-100, le=100)] | None = None
    max_blob_bytes: Annotated[int, Meta(ge=0, le=2**62)] | None = None


# The most that each credential can carry. The maker of an API key chooses a subset.
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

# The role that an account needs to use a scope.
ROLE_FOR: dict[Scope, Role] = {
    Scope.TASKS_READ: Role.CONSUMER,
    Scope.TASKS_WRITE: Role.CONSUMER,
    Scope.NODES_WRITE: Role.PROVIDER,
    Scope.NODE: Role.PROVIDER,
    Scope.ADMIN: Role.ADMIN,
}
