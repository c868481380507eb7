"""The roles of an account and the scopes of its credentials."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import SmallCount

# API keys of one account that are valid at the same time.
MOST_KEYS = 100


class Role(StrEnum):
    """The role of an account. An account chooses the first two; an admin grants admin."""

    CONSUMER = "consumer"  # may submit tasks; chosen by the account
    PROVIDER = "provider"  # may authorise node keys and offer machines; chosen by the account
    ADMIN = "admin"  # may invite, grant, suspend and read the audit log; granted by an admin


class Registration(StrEnum):
    """Which wallets get an account when they first sign in."""

    OPEN = "open"  # every wallet
    INVITE = "invite"  # wallets with an invite
    CLOSED = "closed"  # none


class Scope(StrEnum):
    """What a credential may be used for. An operation requires one scope of several."""

    # read the account's own tasks, logs, events and identity; requires the role consumer
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"  # submit and cancel tasks; requires the role consumer
    POOL_READ = "pool:read"  # read the nodes of the pool
    ACCOUNT_READ = "account:read"  # read the account itself, its ledger and all its events
    # change roles, sessions, keys, node keys and webhooks; requires a wallet's session
    ACCOUNT_WRITE = "account:write"
    # change the terms of the account's nodes, and give them orders; requires the role provider
    NODES_WRITE = "nodes:write"
    # read the metrics of the server and the pool; requires the role admin
    METRICS_READ = "metrics:read"
    NODE = "node"  # act as one node; only node keys have it
    ADMIN = "admin"  # administer the pool; requires a wallet's session and the role admin


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
            Scope.METRICS_READ,
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
    Scope.METRICS_READ: Role.ADMIN,
    Scope.ADMIN: Role.ADMIN,
}
