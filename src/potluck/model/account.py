"""The roles of an account and the scopes of its credentials."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import SmallCount


class Role(StrEnum):
    """The role of an account. An account chooses the first two; an admin grants admin."""

    CONSUMER = "consumer"  # it may submit tasks; an account's own choice
    PROVIDER = "provider"  # it may authorise node keys and offer machines; an account's own choice
    ADMIN = "admin"  # it may invite, grant, suspend and read the audit; another admin gives this


class Registration(StrEnum):
    """Which wallets get an account when they first sign in."""

    OPEN = "open"  # every wallet
    INVITE = "invite"  # wallets with an invite
    CLOSED = "closed"  # none


class Scope(StrEnum):
    """What a credential may be used for. An operation requires one scope of several."""

    # see one's tasks, their logs and their events, and who one is; takes the role consumer
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"  # submit and cancel tasks; takes the role consumer
    POOL_READ = "pool:read"  # see the nodes of the pool
    ACCOUNT_READ = "account:read"  # see one's own account, its ledger and all of its events
    # change it: roles, sessions, keys, node keys and webhooks; takes a wallet's session
    ACCOUNT_WRITE = "account:write"
    # change the terms of one's nodes, and give them orders; takes the role provider
    NODES_WRITE = "nodes:write"
    NODE = "node"  # speak for one node; node keys have it, and nothing else has
    ADMIN = "admin"  # do an admin's work; takes a wallet's session and the role


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
