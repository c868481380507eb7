"""The provider's settings, as one frozen value, read once.

Options win over variables, variables over defaults. The variable of a field is its name after
POTLUCK_PROVIDER_, so POTLUCK_PROVIDER_CORES for `cores`. The caller gives the server's address and
authority, and POTLUCK_DATA_DIR names the directory that all commands share.
"""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from potluck.local import settings
from potluck.local.data_directory import part_directory
from potluck.local.log import LogLevel, LogStyle
from potluck.model.bounded_types import Count, ShortText
from potluck.model.error import BadSettings
from potluck.model.task import HEARTBEATS_OF_SILENCE
from potluck.provider.dependencies.settings import CACHE_BYTES

Interval = Annotated[float, Meta(gt=0, le=3_600)]


class ProviderSettings(Struct, frozen=True, kw_only=True):
    url: str
    data_directory: Path
    name: ShortText
    ca_file: Path | None = None  # the CA certificate of the server, if it has its own
    unsafe_no_sandbox: bool = False  # run without a sandbox, and only the owner's tasks
    # The socket of a container engine, as `unix:///path`; by default that of Docker or Podman, if
    # it exists; else an ordinary user's provider starts Podman.
    docker_url: str = ""
    # The only package index from which tasks' dependencies are installed.
    index_url: str = "https://pypi.org/simple"
    # Further hosts that serve the index's files: `name` or `name:port`, separated by commas.
    index_hosts: str = ""
    # Another list of Pythons to fetch (`fetch_python`), in the format of uv's
    # `--python-downloads-json-url`, with files on the same host; by default uv's own list.
    python_list_url: str = ""
    # Build dependencies that have no wheel; their code then runs in the installation sandbox.
    allow_builds: bool = False
    # Disk for installed dependencies; the least recently used are deleted first. A tenth of the
    # disk (at most 5 GiB) always stays free.
    environments_bytes: Count = CACHE_BYTES
    # Disk for cached input files of tasks; the least recently used are deleted first.
    files_bytes: Count = 20 * 2**30
    # Disk for volumes that tasks mount; the least recently used are deleted first. 0: no volumes.
    # They take at most half of the free disk, and leave a tenth of it (at most 5 GiB) free.
    volumes_bytes: Count = 50 * 2**30
    price_micro_per_hour: Count = 0  # the price of each device, in millionths of a credit
    # Labels that tasks can require, separated by commas: `region=eu,rack=7` (`--label`).
    labels: tuple[ShortText, ...] = ()
    # Whether tasks of several accounts may share a device, if the tasks allow it too. The device
    # does not isolate them from each other.
    share_between_accounts: bool = False
    cores: Annotated[int, Meta(ge=1, le=4096)] | None = None  # how many cores to offer
    memory_bytes: Annotated[int, Meta(ge=2**26, le=2**50)] | None = None  # how much memory to offer
    # How much disk to offer, at most what is free; by default half of that. Without root, and
    # without `others_on_disk`, it is a fifth of the memory.
    disk_bytes: Annotated[int, Meta(ge=2**20, le=2**50)] | None = None
    # The longest time between heartbeats, whatever the server requests.
    heartbeat_seconds: Interval = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0  # the longest poll
    # The pause after a grant before the next poll, cut short by the response to a report, so that
    # short tasks are reported first.
    poll_rest_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.02
    # How long a task that was granted ahead may wait for the one before it; then it is given back.
    ahead_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0
    answer_seconds: Interval = 30.0  # how long to wait for a response
    beat_answer_seconds: Interval = 8.0  # how long to wait for the response to a heartbeat
    connect_seconds: Interval = 5.0  # how long to wait for a connection
    back_off_first_seconds: Interval = 0.25  # the first pause while the server is unreachable
    back_off_longest_seconds: Interval = 15.0  # the longest pause while it is unreachable
    log_flush_seconds: Interval = 0.1  # how long output is collected before it is sent
    # How often the outcomes of an array's items are at least reported.
    outcome_flush_seconds: Interval = 1.0
    # How long a function's interpreter waits for the next call; 0: it ends after each call.
    warm_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    # The maximum number of calls of one interpreter.
    warm_items: Annotated[int, Meta(ge=1, le=2**40)] = 100_000
    warm_minutes: Annotated[float, Meta(gt=0, le=30 * 1_440)] = 60.0  # the maximum age of one
    # Tasks are stopped after the server was unreachable for this time, or sooner if the task says
    # so; by default they run to their limit (`--stop-after-silence`).
    stop_after_silence_seconds: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] | None = None
    # A file with names for hosts that `network` may list, besides those that Potluck knows.
    network_presets: Path | None = None
    stop_grace_seconds: Interval = 5.0  # how long outcomes may still be sent at shutdown
    # `auto`: readable lines in a terminal, else JSON; or `json`, or `text`.
    log_style: LogStyle = LogStyle.AUTO
    # `debug`, `info`, `warning` or `error`. `info` has the start and end of each attempt.
    log_level: LogLevel = LogLevel.WARNING
    # The port of `/metrics` on 127.0.0.1, for a Prometheus on this machine (`--metrics-port`); 0:
    # none.
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    detect_seconds: Interval = 20.0  # how long device detection may take
    terms_seconds: Interval = 1.0  # how often the owner's file and the clock are checked
    sample_seconds: Interval = 5.0  # how often the devices' state is sampled


def read_settings(
    url: str, ca_file: Path | None, options: Mapping[str, Any], variables: Mapping[str, str]
) -> ProviderSettings:
    """The settings, or BadSettings naming the option or variable that is wrong."""
    given = {
        "url": url,
        "ca_file": ca_file,
        "name": platform.node() or "provider",
        "data_directory": part_directory("provider", None, variables),
    }
    options = settings.with_part_directory("provider", options)
    read = settings.read_values(
        ProviderSettings, "POTLUCK_PROVIDER_", options, variables, given, _SPELLED
    )
    _check_silence(read)
    # No variable may override the address that the wallet has signed for.
    return replace(read, url=url, ca_file=ca_file)


def _check_silence(chosen: ProviderSettings) -> None:
    """A shorter limit would stop tasks while the server answers."""
    limit, least = (
        chosen.stop_after_silence_seconds,
        HEARTBEATS_OF_SILENCE * chosen.heartbeat_seconds,
    )
    if limit is not None and limit < least:
        raise BadSettings(
            f"--stop-after-silence is {limit:g} s, but heartbeats are only sent every"
            f" {chosen.heartbeat_seconds:g} s.",
            f"Allow at least three of them, {least:g} s.",
        )


_SPELLED = {
    "data_directory": "--data-dir",
    "price_micro_per_hour": "--price",
    "labels": "--label",
    "memory_bytes": "--ram",
    "disk_bytes": "--disk",
    "stop_after_silence_seconds": "--stop-after-silence",
    "environments_bytes": "--environments",
    "volumes_bytes": "--volumes",
    "metrics_port": "--metrics-port",
}
