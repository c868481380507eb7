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
    unsafe_no_sandbox: bool = False  # run without a sandbox, and take the owner's tasks only
    # The socket of a container engine, as `unix:///path`; none: Docker's or Podman's usual one, if
    # it is there.
    docker_url: str = ""
    # Where tasks' dependencies come from, and the only place they may.
    index_url: str = "https://pypi.org/simple"
    # Further hosts that serve the index's files: `name` or `name:port`, with commas between.
    index_hosts: str = ""
    # Build dependencies that have no wheel; their code then runs in the sandbox of the
    # installation.
    allow_builds: bool = False
    # Disk for installed dependencies; the least recently used go first. A tenth of the disk (5 GiB
    # at most) is left free in any case.
    environments_bytes: Count = CACHE_BYTES
    # Disk for files that tasks have named, kept for the next task that does; the least recently
    # used go first.
    files_bytes: Count = 20 * 2**30
    price_micro_per_hour: Count = 0  # the price of each device, in millionths of a credit
    # Words that tasks may ask for, with commas between them: `region=eu,rack=7` (`--label`).
    labels: tuple[ShortText, ...] = ()
    # Whether parts of one device may serve several accounts side by side, if their tasks agree too.
    # Nothing stands between them on the device.
    share_between_accounts: bool = False
    cores: Annotated[int, Meta(ge=1, le=4096)] | None = None  # how many cores to offer
    memory_bytes: Annotated[int, Meta(ge=2**26, le=2**50)] | None = None  # how much memory to offer
    # How much disk to offer; a task's disk lives in memory.
    disk_bytes: Annotated[int, Meta(ge=2**20, le=2**50)] | None = None
    # The longest pause between heartbeats, whatever the server asks.
    heartbeat_seconds: Interval = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0  # the longest poll
    # After a grant the next poll waits so long, or until a report has been answered: what is short
    # is reported first.
    poll_rest_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.02
    answer_seconds: Interval = 30.0  # how long to wait for an answer
    beat_answer_seconds: Interval = 8.0  # how long to wait for the answer to a heartbeat
    connect_seconds: Interval = 5.0  # how long to wait for a connection
    back_off_first_seconds: Interval = 0.25  # the first pause while the server is silent
    back_off_longest_seconds: Interval = 15.0  # the longest one
    log_flush_seconds: Interval = 0.1  # how long output is gathered before it is sent
    # Outcomes of an array's items are reported at least so often.
    outcome_flush_seconds: Interval = 1.0
    # How long the interpreter of a function waits for the next call; 0: it ends with each.
    warm_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    # After so many calls an interpreter is not used again.
    warm_items: Annotated[int, Meta(ge=1, le=2**40)] = 100_000
    warm_minutes: Annotated[float, Meta(gt=0, le=30 * 1_440)] = 60.0  # nor is it when it is so old
    # A task is stopped when the server was silent for so long, unless it says sooner; otherwise it
    # goes on to its limit (`--stop-after-silence`).
    stop_after_silence_seconds: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] | None = None
    stop_grace_seconds: Interval = 5.0  # at shutdown, how long outcomes may still travel
    detect_seconds: Interval = 20.0  # how long to look for devices
    terms_seconds: Interval = 1.0  # the owner's file and the clock are looked at so often
    sample_seconds: Interval = 5.0  # devices are asked so often how they do


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
