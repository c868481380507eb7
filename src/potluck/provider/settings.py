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
from potluck.local.data_directory import data_directory
from potluck.model.bounded_types import Count, ShortText
from potluck.provider.dependencies.settings import CACHE_BYTES

Interval = Annotated[float, Meta(gt=0, le=3_600)]


class ProviderSettings(Struct, frozen=True, kw_only=True):
    url: str
    data_directory: Path
    name: ShortText
    ca_file: Path | None = None  # the server's own authority, where it has one
    unsafe_no_sandbox: bool = False
    docker_url: str = ""  # the socket of a container engine; "": one of the usual paths
    index_url: str = "https://pypi.org/simple"
    index_hosts: str = ""  # more hosts of its files: `name` or `name:port`, separated by commas
    allow_builds: bool = False  # of source distributions, whose code then runs in the sandbox
    environments_bytes: Count = CACHE_BYTES  # of all installed dependencies together
    files_bytes: Count = 20 * 2**30  # of all cached input files
    price_micro_per_hour: Count = 0  # of each device
    labels: tuple[ShortText, ...] = ()  # that tasks may require, such as region=eu
    share_between_accounts: bool = False  # fractions of one device for tasks of several accounts
    cores: Annotated[int, Meta(ge=1, le=4096)] | None = None  # None: all
    memory_bytes: Annotated[int, Meta(ge=2**26, le=2**50)] | None = None  # None: 60 % of the RAM
    disk_bytes: Annotated[int, Meta(ge=2**20, le=2**50)] | None = None  # None: 20 % of the RAM
    # The server sets the intervals; these are upper bounds.
    heartbeat_seconds: Interval = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0
    # The pause after a grant before the next poll, unless a report is answered sooner.
    poll_rest_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.02
    # How long to wait for an answer, in addition to the duration of a long poll.
    answer_seconds: Interval = 30.0
    beat_answer_seconds: Interval = 8.0
    connect_seconds: Interval = 5.0
    # Between retries: full jitter, doubling from the first to the longest.
    back_off_first_seconds: Interval = 0.25
    back_off_longest_seconds: Interval = 15.0
    log_flush_seconds: Interval = 0.1
    outcome_flush_seconds: Interval = 1.0  # the longest that outcomes of items are gathered
    # Warm interpreters: how long an idle one is kept, and after how much use it is replaced.
    warm_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    warm_items: Annotated[int, Meta(ge=1, le=2**40)] = 100_000
    warm_minutes: Annotated[float, Meta(gt=0, le=30 * 1_440)] = 60.0
    # Tasks are stopped when the server was silent for this long, or their own limit; None: never.
    stop_after_silence_seconds: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] | None = None
    # How long a shutdown waits for outcomes to reach the server.
    stop_grace_seconds: Interval = 5.0
    detect_seconds: Interval = 20.0
    terms_seconds: Interval = 1.0  # between checks of the owner's file and the clock
    sample_seconds: Interval = 5.0  # between samples of the devices


def read_settings(
    url: str, ca_file: Path | None, options: Mapping[str, Any], variables: Mapping[str, str]
) -> ProviderSettings:
    """The settings, or BadSettings naming the option or variable that is wrong."""
    given = {
        "url": url,
        "ca_file": ca_file,
        "name": platform.node() or "provider",
        "data_directory": data_directory(variables) / "provider",
    }
    read = settings.read_values(
        ProviderSettings, "POTLUCK_PROVIDER_", options, variables, given, _SPELLED
    )
    # No variable may override the address that the wallet has signed for.
    return replace(read, url=url, ca_file=ca_file)


_SPELLED = {
    "data_directory": "--data-dir",
    "price_micro_per_hour": "--price",
    "labels": "--label",
    "memory_bytes": "--ram",
    "disk_bytes": "--disk",
    "stop_after_silence_seconds": "--stop-after-silence",
    "environments_bytes": "--environments",
}
