"""The server's settings: one frozen value, read once, validated by a message that names the option.

Options win over `POTLUCK_*` variables, which win over the defaults. Every time is a setting, so
that tests run with tenths of seconds.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from potluck.local import settings
from potluck.local.directory import data_directory
from potluck.model.error import BadSettings
from potluck.wire.routes import DEFAULT_PORT

Duration = Annotated[float, Meta(gt=0, le=86_400)]


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Everything that can be said to a server."""

    data_directory: Path
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = DEFAULT_PORT
    database_url: str | None = None  # an embedded PostgreSQL in the data directory if not given
    redis_url: str | None = None  # needed when there is more than one instance
    database_connections: Annotated[int, Meta(ge=2, le=500)] = 16

    lease_seconds: Duration = 90.0
    heartbeat_seconds: Duration = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0
    overrun_seconds: Duration = 300.0  # how long after its limit an attempt may still be reported
    fetch_seconds: Duration = 15.0  # an assignment that is not fetched by then is withdrawn
    silent_after_seconds: Duration = 60.0  # a node that did not beat for so long gets no work

    leader_seconds: Duration = 4.0
    leader_renew_seconds: Duration = 1.0
    schedule_poll_seconds: Duration = 5.0  # a round happens at least so often, woken or not
    expire_poll_seconds: Duration = 1.0
    notify_poll_seconds: Duration = 1.0
    follow_poll_seconds: Duration = 10.0
    most_tasks_per_page: Annotated[int, Meta(ge=1)] = 1000

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
    _check_host(chosen.host)
    return chosen


def _check_host(host: str) -> None:
    """Without TLS and wallets nothing but this machine may reach the server."""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise BadSettings(
            f"--host is {host!r}, but this version serves this machine only.",
            "Use 127.0.0.1, and reach it from another machine through an SSH tunnel:"
            " ssh -N -L 8470:127.0.0.1:8470 you@this-machine",
        )
