"""The server's settings: one frozen value, read once; errors name the option that is wrong.

Options override `POTLUCK_*` variables, which override the defaults. Every duration is a setting, so
that tests can use tenths of a second.
"""

import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta
from msgspec.structs import replace

from potluck.decide.charges import SettleTimes
from potluck.local import settings
from potluck.local.data_directory import part_directory
from potluck.local.log import LogLevel, LogStyle
from potluck.model.account import Registration
from potluck.model.bounded_types import SmallCount
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.hours import parse_hours
from potluck.model.task import HEARTBEATS_OF_SILENCE, Priority
from potluck.server.chain.chain_settings import ChainSettings, read_payout_chain
from potluck.server.egress.allow_list import read_allowed
from potluck.server.http import exposure
from potluck.wire.routes import DEFAULT_PORT
from potluck.wire.signing.address import checksummed

Duration = Annotated[float, Meta(gt=0, le=86_400)]
Lifetime = Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)]


class ServerSettings(ChainSettings, frozen=True, kw_only=True):
    data_directory: Path
    host: str = "127.0.0.1"  # the address to listen on; any but loopback needs TLS or a proxy
    port: Annotated[int, Meta(ge=0, le=65_535)] = DEFAULT_PORT  # the port; 0: any free port
    public_url: str | None = None  # the public address, if it differs from host and port
    operator: str | None = None  # the wallet that is an admin from the start
    # Which wallets get an account: `open`, `invite` or `closed`. The default is `invite` if other
    # machines can reach the server.
    registration: Registration = Registration.OPEN
    # The chain IDs that a sign-in message may name, separated by commas.
    chain_ids: tuple[int, ...] = (1,)

    database_url: str | None = None  # your own PostgreSQL, version 15 or later
    # `transaction` if that is the address of PgBouncer in transaction mode. See
    # [scaling.md](scaling.md#pgbouncer).
    database_pooler: Literal["transaction"] | None = None
    # The address of PostgreSQL itself, for migrations, if that is the address of a pooler.
    database_direct_url: str | None = None
    # The encryption keys, the current one first. Only a variable; there is no option.
    encryption_key: str | None = None
    encryption_key_file: Path | None = None  # a file that contains them
    encryption_key_command: str | None = None  # a command that prints them
    # Redis or Valkey, for several instances; `redis+sentinel://…` asks Sentinels for the primary.
    # See [scaling.md](scaling.md#redis-sentinel).
    redis_url: str | None = None
    # An object store for files and logs: `s3://…`, `gs://…`, `az://…`, `file://…`; required for
    # several instances. See [below](#files).
    blobs_url: str | None = None
    # If not 0, clients download directly from the object store, with presigned URLs that are valid
    # for this time. They must be able to reach it.
    presign_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 0.0
    # Connections in the pool, in addition to two for the leader row and health checks.
    database_connections: Annotated[int, Meta(ge=2, le=500)] = 16
    # How long a starting server waits for each of PostgreSQL, Redis and the object store if it does
    # not answer yet; 0: not at all. Then it ends; without Redis it starts, more slowly.
    start_wait_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 120.0
    # How long a migration waits for a table that requests use. Then it lets the requests that queue
    # behind it pass, and tries again.
    migration_lock_seconds: Duration = 3.0
    # PostgreSQL ends a transaction that is idle for this time; less than `POTLUCK_LEADER_SECONDS`,
    # so that a stalled leader does not delay the next one.
    idle_transaction_seconds: Duration = 3.0

    # `auto`: readable lines in a terminal, else JSON; or `json`, or `text`.
    log_style: LogStyle = LogStyle.AUTO
    # `debug`, `info`, `warning` or `error`. `debug` has a line for each step of each task.
    log_level: LogLevel = LogLevel.INFO
    # Sends errors to Sentry; needs `potluck[sentry]`. Only a variable, since it contains a key.
    sentry_dsn: str | None = None
    error_log_seconds: Duration = 5.0  # how often errors are stored for `potluck admin errors`

    lease_seconds: Duration = 90.0  # how long a lease is valid without a heartbeat
    # How often a provider sends a heartbeat; less than `POTLUCK_LEASE_SECONDS` and
    # `POTLUCK_SILENT_AFTER_SECONDS`.
    heartbeat_seconds: Duration = 20.0
    # The longest time that a poll for work waits.
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0
    # How often all waiting polls are checked together, in case a wake-up was lost.
    lease_poll_seconds: Duration = 5.0
    # How long past its time limit an attempt can still be renewed and reported.
    overrun_seconds: Duration = 300.0
    fetch_seconds: Duration = 15.0  # an assignment not fetched within this time is withdrawn
    # A node without a heartbeat for this time gets no work; less than `POTLUCK_LEASE_SECONDS`.
    silent_after_seconds: Duration = 60.0

    # How long a sign-in challenge is valid.
    nonce_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 300.0
    access_seconds: Annotated[float, Meta(gt=0, le=3_600)] = (
        900.0  # how long an access token is valid
    )
    # How long a user has to approve a terminal in a browser.
    terminal_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 600.0
    # How often such a terminal may poll for the approval.
    terminal_poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0
    # A session ends after this time without use (30 days).
    session_seconds: Lifetime = 30 * 86_400.0
    # How long a browser's refresh token that was just used gets the same successor again, because
    # another tab sent it too or the response was lost; 0: not at all.
    refresh_grace_seconds: Annotated[float, Meta(ge=0, le=60)] = 10.0
    # The longest time for which a wallet may authorise a node key (90 days).
    node_key_seconds: Lifetime = 90 * 86_400.0
    # How long two wallets that report the same device have to answer a challenge.
    challenge_seconds: Duration = 60.0
    # The same for the wallet that holds the device, while its machine is offline.
    contest_away_seconds: Duration = 86_400.0
    # How long a wallet waits after a failed contest before it may contest the device again.
    contest_again_seconds: Duration = 86_400.0
    # The maximum number of nodes of one account, not counting removed ones.
    nodes_per_account: Annotated[int, Meta(ge=1)] = 1_000
    # The maximum number of devices that the tasks of one account use at a time; further tasks wait.
    # `potluck admin quota` overrides it for one account.
    quota_running_devices: SmallCount | None = None
    # The maximum number of waiting tasks of one account; an array counts as one. Further tasks are
    # refused. `potluck admin quota` overrides it for one account.
    quota_queued_tasks: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = 10_000
    # The highest priority that tasks of an account may have, from -100 to 100; a higher one is
    # refused.
    quota_priority: Priority | None = None
    # The maximum size of an account's files, including unfinished uploads; each file counts as at
    # least 4 KiB. `potluck admin quota` overrides it for one account.
    quota_blob_bytes: Annotated[int, Meta(ge=0, le=2**62)] | None = 50 * 2**30
    # After its nodes were silent for this time, another wallet can claim a device (7 days).
    binding_lapse_seconds: Lifetime = 7 * 86_400.0
    tidy_seconds: Duration = 30.0  # how often expired data is deleted
    # How long after its end a task's files, results, checkpoint and logs are kept (30 days).
    keep_results_seconds: Lifetime = 30 * 86_400.0
    # How long events are kept (30 days).
    keep_events_seconds: Lifetime = 30 * 86_400.0
    pin_seconds: Lifetime = 86_400.0  # how long an upload is kept that no task uses
    upload_idle_seconds: Lifetime = 86_400.0  # an upload without progress for this time is dropped
    collect_seconds: Duration = 60.0  # how often unused files are searched for
    # How long unused files stay marked before they are deleted.
    collect_wait_seconds: Lifetime = 3_600.0
    # How often all stored objects are compared with the database, to find leftovers of a crash.
    sweep_objects_seconds: Lifetime = 86_400.0

    # Private addresses that webhooks may reach: hosts and networks, each with an optional port,
    # separated by commas: `hooks.lan:8080,10.2.0.0/16,[fd00::/8]:8443`. See
    # [notifications.md](notifications.md#what-the-server-will-not-reach).
    webhook_allow: tuple[str, ...] = ()
    # The maximum number of webhooks of one account; 0: none.
    webhooks_per_account: Annotated[int, Meta(ge=0, le=1_000)] = 10
    # How long a receiver may take for its complete response.
    webhook_seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0
    webhook_retry_first_seconds: Duration = 5.0  # the pause after the first failure; it doubles
    webhook_retry_longest_seconds: Duration = 900.0  # the longest pause after a failure
    # A webhook that accepted nothing for this time is paused; less than
    # `POTLUCK_KEEP_EVENTS_SECONDS`.
    webhook_give_up_seconds: Lifetime = 86_400.0
    # How long the old secret also signs after a rotation.
    webhook_rotation_seconds: Lifetime = 86_400.0
    # The maximum number of concurrent deliveries.
    webhook_concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 32
    # The same for one webhook; 1 while it fails.
    webhook_concurrency_each: Annotated[int, Meta(ge=1, le=100)] = 4
    # The same for all webhooks of one account.
    webhook_concurrency_account: Annotated[int, Meta(ge=1, le=1_000)] = 8
    webhook_poll_seconds: Duration = (
        1.0  # how often the server at least looks for pending deliveries
    )
    # How long the delivery log is kept (7 days).
    keep_deliveries_seconds: Lifetime = 7 * 86_400.0

    # How long an instance keeps what it knows of a caller if it does not hear of a change, of which
    # other instances tell it through Redis. Operations that change rights always read the database.
    # Zero keeps nothing.
    caller_cache_seconds: Annotated[float, Meta(ge=0, le=2)] = 2.0
    # The same for the numbers of the whole pool.
    pool_cache_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    # How long an instance shows the same market to all.
    market_cache_seconds: Annotated[float, Meta(ge=0, le=60)] = 5.0

    # The operator's part of each reward, in hundredths of a percent.
    fee_basis_points: Annotated[int, Meta(ge=0, le=10_000)] = 0
    # How often an attempt that has a price is charged while it runs.
    settle_seconds: Duration = 300.0
    settle_poll_seconds: Duration = 5.0  # how often the leader looks for such attempts
    # The longest time that the reward of a failed attempt is held back while its task is open.
    # As long as a task may run: a retry that could refute the failure has mostly ended by then.
    held_back_seconds: Lifetime = 30 * 86_400.0
    # A node that works on a call stream and has no more calls to do waits this long for the next
    # ones, unless another account waits for the device.
    stream_linger_seconds: Annotated[float, Meta(ge=0, le=60)] = 2.0
    # How much work a call stream may have waiting on each of its nodes.
    stream_ahead_seconds: Annotated[float, Meta(gt=0, le=60)] = 0.5
    # How long a node works on a call stream before others who wait have their turn.
    stream_turn_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 1.0
    # A call stream without new calls for this time is closed; the client opens another.
    stream_idle_seconds: Duration = 300.0
    stream_seconds: Duration = 3_600.0  # the same for a call stream that is this old
    # How long a task has for its last checkpoint when its account's credit runs out; held for it.
    checkpoint_seconds: Duration = 60.0
    # How long an epoch is; rewards are set aside for payouts at its end. Days end at midnight UTC.
    epoch_seconds: Annotated[float, Meta(ge=1, le=366 * 86_400)] = 86_400.0
    epoch_poll_seconds: Duration = 5.0  # how often the leader looks whether an epoch is over

    health_seconds: Duration = 1.0  # how often `/readyz` is updated, and the clock is compared
    storage_check_seconds: Duration = 30.0  # how often the disk and the object store are checked
    # A file with names for hosts that tasks may ask for, besides those of `--network`'s list.
    network_presets: Path | None = None
    # The folder of a built dashboard, if it is not the one in this package.
    dashboard_directory: Path | None = None
    dashboard_poll_seconds: Duration = 2.0  # how often the server looks for a new build of it
    # With less free space in the data directory than this, `/readyz` and the log warn.
    low_disk_bytes: Annotated[int, Meta(ge=0, le=2**62)] = 2**30
    # If this machine's clock differs from the database's by more than this, `/readyz` and the log
    # warn. Instances agree nevertheless: they use the database's time.
    clock_skew_seconds: Duration = 5.0

    metrics: bool = True  # measure requests and statements, and serve `/metrics`
    # How often the leader counts the queue, nodes, devices and the ledger for `/metrics`.
    metrics_seconds: Duration = 15.0

    leader_seconds: Duration = 4.0  # how long leadership is valid without renewal
    leader_renew_seconds: Duration = 1.0  # how often it is renewed
    schedule_poll_seconds: Duration = 5.0  # the scheduler runs at least this often
    # How many tasks the scheduler places before it applies the decisions and reads changes.
    decisions_per_slice: Annotated[int, Meta(ge=1)] = 200
    # A slice of planning also ends after this time, however few tasks were placed.
    slice_seconds: Annotated[float, Meta(gt=0, le=10)] = 0.02
    # How often the leader checks the invariants of a sample of nodes, attempts and accounts; a
    # violation is logged as an error.
    watch_seconds: Duration = 60.0
    # How often the sum of all entries of the ledger is checked, which reads all of them.
    ledger_check_seconds: Duration = 3_600.0
    # How often the leader's complete memory is compared with the database.
    sweep_seconds: Duration = 60.0
    # How long an instance waits for the leader to explain why a task waits.
    answer_seconds: Duration = 2.0
    # Which task is next: `fair`, `fcfs`, `round-robin`, `priority`, `shortest`, or your own.
    order_policy: str = "fair"
    # Which suitable node it gets: `fragmentation`, `first-fit`, `best-fit`, `pack`, `spread`,
    # `cheapest`, or your own.
    placement_policy: str = "fragmentation"
    expire_poll_seconds: Duration = 1.0  # how often expired leases are searched for
    notify_poll_seconds: Duration = 1.0  # the outbox is emptied at least this often
    # How often an idle stream sends a keep-alive, and the permission of each reader is checked.
    follow_poll_seconds: Duration = 10.0
    # How many waiting tasks the leader reads at a time.
    most_tasks_per_page: Annotated[int, Meta(ge=1)] = 1000

    back_off_first_seconds: Annotated[float, Meta(ge=0)] = 1.0  # the first pause before a retry
    back_off_longest_seconds: Annotated[float, Meta(ge=0)] = (
        60.0  # the longest pause before a retry
    )

    max_body_bytes: Annotated[int, Meta(ge=1024)] = 2**20  # the largest request body
    # How long a stopping server continues to serve, and `/readyz` says `stopping`, so that load
    # balancers send requests elsewhere. The default is 0 if only this machine can reach the server.
    drain_seconds: Annotated[float, Meta(ge=0, le=300)] = 3.0
    # How long open requests may take after that; long polls and streams end at once.
    shutdown_seconds: Duration = 5.0

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach the server, as far as it knows."""
        is_behind = self.public_url is not None or bool(self.behind_proxy)
        return exposure.is_loopback(self.host) and not is_behind

    @property
    def least_silence_seconds(self) -> float:
        """The shortest time without heartbeats that means anything."""
        return HEARTBEATS_OF_SILENCE * self.heartbeat_seconds

    @property
    def settle_times(self) -> SettleTimes:
        # Late by one look before a task is asked to stop, and by one before it is stopped.
        late_seconds = 2 * self.settle_poll_seconds
        return SettleTimes(self.settle_seconds, self.checkpoint_seconds, late_seconds)


def read_settings(
    options: Mapping[str, Any], variables: Mapping[str, str] = os.environ
) -> ServerSettings:
    """Returns the settings; raises BadSettings naming the option or variable that is wrong."""
    chosen = settings.read_values(
        ServerSettings,
        "POTLUCK_",
        settings.with_part_directory("server", options),
        variables,
        {"data_directory": part_directory("server", None, variables)},
        {"data_directory": "--data-dir"},
    )
    read_allowed(chosen.webhook_allow)
    _check_hours(chosen.alert_quiet_hours)
    exposure.check(chosen.host, chosen, chosen.public_url)
    _check_times(chosen)
    _check_database(chosen)
    read_payout_chain(chosen)
    explicit = {
        name for name in ServerSettings.__struct_fields__ if _is_explicit(name, options, variables)
    }
    return replace(
        chosen,
        operator=_operator(chosen.operator),
        public_url=_public_url(chosen.public_url),
        registration=_registration(chosen, explicit),
        address_requests_per_second=_unless_private(
            "address_requests_per_second", chosen, explicit
        ),
        drain_seconds=_unless_private("drain_seconds", chosen, explicit),
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


def _check_database(chosen: ServerSettings) -> None:
    """Rejects what only your own PostgreSQL can have."""
    for name in ("database_pooler", "database_direct_url"):
        if getattr(chosen, name) is not None and chosen.database_url is None:
            raise BadSettings(
                f"POTLUCK_{name.upper()} is set, but --database-url is not.",
                "Give the address of the pooler as POTLUCK_DATABASE_URL.",
            )


def _check_hours(hours: str) -> None:
    try:
        parse_hours(hours, "POTLUCK_ALERT_QUIET_HOURS")
    except InvalidInput as error:
        raise BadSettings(error.detail, error.hint) from error


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
    return Registration.OPEN if chosen.is_private else Registration.INVITE


def _unless_private(name: str, chosen: ServerSettings, explicit: Set[str]) -> float:
    """Zero on a server private to its machine: all callers share one address, and no load balancer
    is in front of it."""
    value: float = getattr(chosen, name)
    return 0.0 if chosen.is_private and name not in explicit else value
