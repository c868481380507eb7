"""The server's settings: one frozen value, read once; errors name the option that is wrong.

Options override `POTLUCK_*` variables, which override the defaults. Every duration is a setting, so
that tests can use tenths of a second.
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
    data_directory: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = DEFAULT_PORT
    public_url: str | None = (
        None  # the URL that users reach; required if it differs from host and port
    )
    operator: str | None = None  # this wallet is an admin from the start
    registration: Registration = Registration.OPEN  # default: open only on a loopback address
    chain_ids: tuple[int, ...] = (1,)  # chains that a sign-in message may name
    chain_rpc_urls: Mapping[int, str] = {}  # RPC URL per chain, to verify contract wallets

    database_url: str | None = None  # default: an embedded PostgreSQL in the data directory
    encryption_key: str | None = (
        None  # the current key, perhaps followed by older ones; never an option
    )
    encryption_key_file: Path | None = None  # default: a file in the data directory
    encryption_key_command: str | None = None  # prints the keys, for a secret store
    redis_url: str | None = None  # required for more than one instance
    blobs_url: str | None = None  # likewise; default: a directory in the data directory
    # How long clients may read from the object store directly; 0: never.
    presign_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 0.0
    database_connections: Annotated[int, Meta(ge=2, le=500)] = 16
    idle_transaction_seconds: Duration = (
        3.0  # below leader_seconds, so that a stopped leader releases its locks
    )

    lease_seconds: Duration = 90.0
    heartbeat_seconds: Duration = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0
    lease_poll_seconds: Duration = 5.0  # how often a waiting poll checks again without a wake-up
    overrun_seconds: Duration = 300.0  # how long after its time limit an attempt may still report
    fetch_seconds: Duration = 15.0  # an assignment not fetched within this time is withdrawn
    silent_after_seconds: Duration = 60.0  # a node without a heartbeat for this long gets no work

    nonce_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 300.0  # to sign a challenge
    access_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 900.0  # lifetime of an access token
    terminal_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 600.0  # to approve a terminal
    terminal_poll_seconds: Annotated[float, Meta(gt=0, le=60)] = (
        5.0  # minimum interval between polls of a terminal
    )
    session_seconds: Lifetime = 30 * 86_400.0  # a session ends after this time without use
    node_key_seconds: Lifetime = 90 * 86_400.0  # longest authorisation of a node key
    challenge_seconds: Duration = 60.0  # time to answer a device challenge
    contest_away_seconds: Duration = 86_400.0  # … if the holder's machine is away
    contest_again_seconds: Duration = 86_400.0  # wait after a lost contest
    nodes_per_account: Annotated[int, Meta(ge=1)] = 1_000
    # Quotas of accounts without their own; None means no limit.
    quota_running_devices: SmallCount | None = None
    quota_queued_tasks: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    quota_priority: Priority | None = None
    quota_blob_bytes: Annotated[int, Meta(ge=0, le=2**62)] | None = 50 * 2**30
    binding_lapse_seconds: Lifetime = (
        7 * 86_400.0
    )  # a device of a node that is silent this long is released
    tidy_seconds: Duration = 30.0  # interval of the retention loop
    keep_results_seconds: Lifetime = (
        30 * 86_400.0
    )  # files, results and logs, after the end of a task
    keep_events_seconds: Lifetime = 30 * 86_400.0  # how long events can be read
    pin_seconds: Lifetime = 86_400.0  # how long an upload without a task is kept
    upload_idle_seconds: Lifetime = 86_400.0  # an idle upload is discarded after this time
    collect_seconds: Duration = 60.0  # interval of the garbage loop
    collect_wait_seconds: Lifetime = 3_600.0  # between marking unused bytes and removal
    sweep_objects_seconds: Lifetime = 86_400.0  # interval of the sweep for orphaned objects

    # Hosts and networks, optionally with a port, that webhooks may reach despite the egress guard.
    webhook_allow: tuple[str, ...] = ()
    webhooks_per_account: Annotated[int, Meta(ge=0, le=1_000)] = 10
    webhook_seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0  # for a receiver's complete response
    webhook_retry_first_seconds: Duration = 5.0  # after the first failure; then doubled …
    webhook_retry_longest_seconds: Duration = 900.0  # … up to this
    webhook_give_up_seconds: Lifetime = 86_400.0  # paused after this time without success
    webhook_rotation_seconds: Lifetime = 86_400.0  # the old secret also signs for this long
    webhook_concurrency: Annotated[int, Meta(ge=1, le=1_000)] = (
        32  # concurrent deliveries, in total
    )
    webhook_concurrency_each: Annotated[int, Meta(ge=1, le=100)] = 4  # … to one webhook
    webhook_concurrency_account: Annotated[int, Meta(ge=1, le=1_000)] = 8  # … to one account
    webhook_poll_seconds: Duration = 1.0
    keep_deliveries_seconds: Lifetime = 7 * 86_400.0  # log of delivery tries

    leader_seconds: Duration = 4.0
    leader_renew_seconds: Duration = 1.0
    schedule_poll_seconds: Duration = 5.0  # a round happens at least this often, without a wake-up
    decisions_per_slice: Annotated[int, Meta(ge=1)] = 200  # then other requests get a turn
    watch_seconds: Duration = 60.0  # interval of the invariant check
    sweep_seconds: Duration = 60.0  # interval of the memory audit
    answer_seconds: Duration = 2.0  # how long to wait for the leader's answer
    order_policy: str = "fair"  # which task is next
    placement_policy: str = "fragmentation"  # which suitable node to use
    expire_poll_seconds: Duration = 1.0
    notify_poll_seconds: Duration = 1.0
    follow_poll_seconds: Duration = 10.0
    most_tasks_per_page: Annotated[int, Meta(ge=1)] = 1000  # rows per read of the leader

    back_off_first_seconds: Annotated[float, Meta(ge=0)] = 1.0
    back_off_longest_seconds: Annotated[float, Meta(ge=0)] = 60.0

    max_body_bytes: Annotated[int, Meta(ge=1024)] = 2**20
    shutdown_seconds: Duration = 10.0


def read_settings(
    options: Mapping[str, Any], variables: Mapping[str, str] = os.environ
) -> ServerSettings:
    """Returns the settings; raises BadSettings naming the option or variable that is wrong."""
    defaults = {"data_directory": data_directory(variables) / "server"}
    option_names = {"data_directory": "--data-dir"}
    chosen = settings.read_values(
        ServerSettings, "POTLUCK_", options, variables, defaults, option_names
    )
    read_allowed(chosen.webhook_allow)
    exposure.check(chosen.host, chosen, chosen.public_url)
    _check_times(chosen)
    explicit = {
        name for name in ServerSettings.__struct_fields__ if _is_explicit(name, options, variables)
    }
    return replace(
        chosen,
        operator=_operator(chosen.operator),
        public_url=_public_url(chosen.public_url),
        registration=_registration(chosen, explicit),
        address_requests_per_second=_address_rate(chosen, explicit),
    )


def _is_explicit(name: str, options: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    return options.get(name) is not None or bool(variables.get(f"POTLUCK_{name.upper()}"))


# The first duration must be shorter than the second, or else the third happens.
_SHORTER = (
    ("heartbeat_seconds", "lease_seconds", "every node would appear silent"),
    ("heartbeat_seconds", "silent_after_seconds", "every node would appear silent"),
    ("silent_after_seconds", "lease_seconds", "a node could be assigned what it still runs"),
    ("leader_renew_seconds", "leader_seconds", "no instance would stay leader"),
    ("webhook_give_up_seconds", "keep_events_seconds", "events would be deleted before delivery"),
)


def _check_times(chosen: ServerSettings) -> None:
    """Rejects contradictory durations at the start."""
    for shorter, longer, consequence in _SHORTER:
        seconds = getattr(chosen, shorter), getattr(chosen, longer)
        if seconds[0] >= seconds[1]:
            raise BadSettings(
                f"POTLUCK_{shorter.upper()} is {seconds[0]:g}, and"
                f" POTLUCK_{longer.upper()} is {seconds[1]:g}: {consequence}.",
                "Make the first much shorter than the second.",
            )


def _operator(address: str | None) -> str | None:
    try:
        return None if address is None else checksummed(address)
    except InvalidInput as error:
        raise BadSettings(f"--operator: {error.detail}", error.hint) from error


def _public_url(url: str | None) -> str | None:
    """The origin: scheme, host and optional port, in the spelling of browsers."""
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
            "Give scheme and host, and the port if it is not the default:"
            " https://potluck.example.org",
        )
    default_port = {"http": ":80", "https": ":443"}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(default_port)}"


def _registration(chosen: ServerSettings, explicit: Set[str]) -> Registration:
    """Open on a server private to its machine; invite-only elsewhere."""
    if "registration" in explicit:
        return chosen.registration
    return Registration.OPEN if _is_private(chosen) else Registration.INVITE


def _address_rate(chosen: ServerSettings, explicit: Set[str]) -> float:
    """No limit on a server private to its machine: all callers share one address."""
    name = "address_requests_per_second"
    return 0.0 if _is_private(chosen) and name not in explicit else getattr(chosen, name)


def _is_private(chosen: ServerSettings) -> bool:
    return exposure.is_loopback(chosen.host) and chosen.public_url is None
