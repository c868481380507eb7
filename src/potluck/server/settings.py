"""The server's settings: one frozen value, read once, validated by a message that names the option.

Options win over `POTLUCK_*` variables, which win over the defaults. Every time is a setting, so
that tests run with tenths of seconds.
"""

import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta
from msgspec.structs import replace

from potluck.local import settings
from potluck.local.data_directory import data_directory
from potluck.model.account import Registration
from potluck.model.bounded_types import SmallCount
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.task import Priority
from potluck.server.egress.allow_list import read_allowed
from potluck.server.http import exposure
from potluck.server.http.settings import HttpSettings
from potluck.wire.routes import DEFAULT_PORT
from potluck.wire.signing.address import checksummed

Duration = Annotated[float, Meta(gt=0, le=86_400)]
Lifetime = Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)]


class ServerSettings(HttpSettings, frozen=True, kw_only=True):
    """Everything that can be said to a server."""

    data_directory: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = DEFAULT_PORT
    public_url: str | None = None  # where people reach it; needed if that is not where it listens
    operator: str | None = None  # this wallet is an admin from the start
    registration: Registration = Registration.OPEN  # if not said: open for this machine alone
    chain_ids: tuple[int, ...] = (1,)  # the chains that a sign-in message may name
    chain_rpc_urls: Mapping[int, str] = {}  # where contract wallets of a chain are asked

    database_url: str | None = None  # an embedded PostgreSQL in the data directory if not given
    encryption_key: str | None = None  # one, or the new one and older ones; never an option
    encryption_key_file: Path | None = None  # in the data directory if nothing else is said
    encryption_key_command: str | None = None  # prints them, for a secret store
    redis_url: str | None = None  # needed when there is more than one instance
    blobs_url: str | None = (
        None  # an object store, likewise; else a directory in the data directory
    )
    presign_seconds: Annotated[float, Meta(ge=0, le=604_800)] = (
        0.0  # … that clients read from; 0: no
    )
    database_connections: Annotated[int, Meta(ge=2, le=500)] = 16
    idle_transaction_seconds: Duration = 3.0  # less than leader_seconds: a stopped leader lets go

    lease_seconds: Duration = 90.0
    heartbeat_seconds: Duration = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0
    lease_poll_seconds: Duration = 5.0  # how often a waiting poll looks again, woken or not
    overrun_seconds: Duration = 300.0  # how long after its limit an attempt may still be reported
    fetch_seconds: Duration = 15.0  # an assignment that is not fetched by then is withdrawn
    silent_after_seconds: Duration = 60.0  # a node that did not beat for so long gets no work

    nonce_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 300.0  # to sign a challenge
    access_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 900.0  # an access token's life
    terminal_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 600.0  # to approve a terminal
    terminal_poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0  # how often a terminal may ask
    session_seconds: Lifetime = 30 * 86_400.0  # a session ends when it is not used for so long
    node_key_seconds: Lifetime = 90 * 86_400.0  # the longest that a wallet may authorise a key for
    challenge_seconds: Duration = 60.0  # to compute on a device that two wallets show
    contest_away_seconds: Duration = 86_400.0  # … and if the machine that has it is away
    contest_again_seconds: Duration = 86_400.0  # whoever contested in vain waits so long
    nodes_per_account: Annotated[int, Meta(ge=1)] = 1_000
    # Of an account for which no admin said otherwise; none: no limit.
    quota_running_devices: SmallCount | None = None
    quota_queued_tasks: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    quota_priority: Priority | None = None
    quota_blob_bytes: Annotated[int, Meta(ge=0, le=2**62)] | None = 50 * 2**30
    binding_lapse_seconds: Lifetime = 7 * 86_400.0  # a device whose node is silent so long is free
    tidy_seconds: Duration = 30.0  # how often what has ended is cleared away
    keep_results_seconds: Lifetime = 30 * 86_400.0  # files, results and logs, after a task's end
    keep_events_seconds: Lifetime = 30 * 86_400.0  # what happened can be read for so long
    pin_seconds: Lifetime = 86_400.0  # how long an upload stays that no task names
    upload_idle_seconds: Lifetime = 86_400.0  # an upload that did not go on for so long is given up
    collect_seconds: Duration = 60.0  # how often is looked for what nobody needs any more
    collect_wait_seconds: Lifetime = (
        3_600.0  # between the mark on bytes that nobody has, and their end
    )
    sweep_objects_seconds: Lifetime = (
        86_400.0  # how often all objects are compared with what is known
    )

    # What webhooks may reach in spite of the guard: hosts and networks, each perhaps with a port.
    webhook_allow: tuple[str, ...] = ()
    webhooks_per_account: Annotated[int, Meta(ge=0, le=1_000)] = 10
    webhook_seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0  # for a receiver's whole answer
    webhook_retry_first_seconds: Duration = 5.0  # after the first failure; then twice that …
    webhook_retry_longest_seconds: Duration = 900.0  # … up to so long
    webhook_give_up_seconds: Lifetime = 86_400.0  # without success for so long, it is paused
    webhook_rotation_seconds: Lifetime = 86_400.0  # the old secret signs as well for so long
    webhook_concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 32  # sent at a time, in all
    webhook_concurrency_each: Annotated[int, Meta(ge=1, le=100)] = 4  # … and to one webhook
    webhook_concurrency_account: Annotated[int, Meta(ge=1, le=1_000)] = (
        8  # … to those of one account
    )
    webhook_poll_seconds: Duration = 1.0
    keep_deliveries_seconds: Lifetime = 7 * 86_400.0  # the log of what came of them

    leader_seconds: Duration = 4.0
    leader_renew_seconds: Duration = 1.0
    schedule_poll_seconds: Duration = 5.0  # a round happens at least so often, woken or not
    decisions_per_slice: Annotated[int, Meta(ge=1)] = 200  # then other requests have their turn
    watch_seconds: Duration = 60.0  # how often a sample of the truth is checked
    sweep_seconds: Duration = 60.0  # how often all that is kept in memory is compared
    answer_seconds: Duration = 2.0  # how long to wait for the leader's explanation
    order_policy: str = "fair"  # who is served next
    placement_policy: str = "fragmentation"  # on which of the nodes that fit
    expire_poll_seconds: Duration = 1.0
    notify_poll_seconds: Duration = 1.0
    follow_poll_seconds: Duration = 10.0
    most_tasks_per_page: Annotated[int, Meta(ge=1)] = 1000  # rows that the leader reads at once

    back_off_first_seconds: Annotated[float, Meta(ge=0)] = 1.0
    back_off_longest_seconds: Annotated[float, Meta(ge=0)] = 60.0

    max_body_bytes: Annotated[int, Meta(ge=1024)] = 2**20
    shutdown_seconds: Duration = 10.0


def read_settings(
    options: Mapping[str, Any], variables: Mapping[str, str] = os.environ
) -> ServerSettings:
    """The settings, or BadSettings naming the option or variable that is wrong."""
    given = {"data_directory": data_directory(variables) / "server"}
    spelled = {"data_directory": "--data-dir"}
    chosen = settings.read(ServerSettings, "POTLUCK_", options, variables, given, spelled)
    read_allowed(chosen.webhook_allow)
    exposure.check(chosen.host, chosen, chosen.public_url)
    _check_times(chosen)
    said = {name for name in ServerSettings.__struct_fields__ if _is_said(name, options, variables)}
    return replace(
        chosen,
        operator=_operator(chosen.operator),
        public_url=_public_url(chosen.public_url),
        registration=_registration(chosen, said),
        address_requests_per_second=_address_rate(chosen, said),
    )


def _is_said(name: str, options: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    return options.get(name) is not None or bool(variables.get(f"POTLUCK_{name.upper()}"))


# Of these two times the first must be the shorter one, or else.
_SHORTER = (
    ("heartbeat_seconds", "lease_seconds", "every node would seem to be away"),
    ("heartbeat_seconds", "silent_after_seconds", "every node would seem to be away"),
    ("silent_after_seconds", "lease_seconds", "a node could be given what it still runs"),
    ("leader_renew_seconds", "leader_seconds", "nobody would lead for long"),
    ("webhook_give_up_seconds", "keep_events_seconds", "events would be gone before they arrive"),
)


def _check_times(chosen: ServerSettings) -> None:
    """Times that contradict each other are found out now, and not in the middle of the night."""
    for shorter, longer, consequence in _SHORTER:
        seconds = getattr(chosen, shorter), getattr(chosen, longer)
        if seconds[0] >= seconds[1]:
            raise BadSettings(
                f"POTLUCK_{shorter.upper()} is {seconds[0]:g}, and"
                f" POTLUCK_{longer.upper()} is {seconds[1]:g}: {consequence}.",
                "Let the first be much shorter than the second.",
            )


def _operator(address: str | None) -> str | None:
    try:
        return None if address is None else checksummed(address)
    except InvalidInput as error:
        raise BadSettings(f"--operator: {error.detail}", error.hint) from error


def _public_url(url: str | None) -> str | None:
    """An origin: scheme, host and perhaps a port, spelled as browsers do."""
    if url is None:
        return None
    parts = urlsplit(url)
    try:
        is_origin = parts.hostname is not None and (parts.port is None or parts.port > 0)
    except ValueError:
        is_origin = False
    rest = (parts.path.strip("/"), parts.query, parts.fragment, "@" in parts.netloc)
    if parts.scheme not in ("http", "https") or not is_origin or any(rest):
        raise BadSettings(
            f"--public-url is {url!r}, which is not an address of a server.",
            "Give scheme and host, and the port if it is not the usual one:"
            " https://potluck.example.org",
        )
    usual = {"http": ":80", "https": ":443"}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(usual)}"


def _registration(chosen: ServerSettings, said: Set[str]) -> Registration:
    """Open where only this machine can come; elsewhere a stranger needs an invite."""
    if "registration" in said:
        return chosen.registration
    return Registration.OPEN if _is_private(chosen) else Registration.INVITE


def _address_rate(chosen: ServerSettings, said: Set[str]) -> float:
    """Where only this machine can come, all have one address, and nobody is a stranger."""
    name = "address_requests_per_second"
    return 0.0 if _is_private(chosen) and name not in said else getattr(chosen, name)


def _is_private(chosen: ServerSettings) -> bool:
    return exposure.is_loopback(chosen.host) and chosen.public_url is None
