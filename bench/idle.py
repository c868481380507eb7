"""What a provider costs its machine while it waits for work.

    make bench-idle                            ten minutes
    python -m bench.idle --seconds 60          as long as you like
    python -m bench.idle --cards 8             with NVIDIA cards, as a stub of NVML tells of them
    python -m bench.idle --terms 'idle_minutes = 5'     with these lines in the owner's file

Starts a server and a provider with their usual times on loopback, waits until the node is
registered, its devices are measured and all is quiet, and then watches the provider and every
process below it. Prints JSON.
`cpu_percent_of_core` counts user and system time, also of children that have ended meanwhile.
`rss_mb_peak` is the largest sum of what these processes had in memory at one moment, where a page
that two of them share counts twice; `pss_mb_peak` counts it once.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.started import new_wallet, server, started

# What the owner of a machine should not even notice.
MOST_CPU_PERCENT = 1.0
MOST_RSS_MB = 120.0
# Until the first registration and what comes with it is over.
_QUIET_SECONDS = 3.0
# Where no device can be measured, or none is free to be, nothing says that it was.
_MEASURED_WITHIN_SECONDS = 40.0
_LOOK_SECONDS = 2.0


class Seen(NamedTuple):
    """The provider and all below it, at one moment."""

    cpu_seconds: float
    rss_mb: float
    pss_mb: float
    processes: list[str]


def look(pid: int) -> Seen:
    provider = psutil.Process(pid)
    cpu = rss = pss = 0.0
    names: list[str] = []
    for process in (provider, *provider.children(recursive=True)):
        try:
            cpu += sum(process.cpu_times()[:4])  # its own, and of the children it has waited for
            memory = process.memory_full_info()
            rss, pss = rss + memory.rss, pss + memory.pss
            names.append(" ".join(process.cmdline())[-60:])
        except psutil.NoSuchProcess:
            continue  # its parent counts it from now on
    return Seen(cpu, rss / 2**20, pss / 2**20, names)


def rig(directory: Path, cards: int) -> dict[str, str]:
    """Variables with which a provider finds so many cards; made of C, as the tests have it."""
    if not cards:
        return {}
    from tests.stubs.nvml import GIB, Card, NvmlRig

    stub = NvmlRig(directory)
    for number in range(cards):
        stub.add(Card(f"GPU-{number}", "NVIDIA GeForce RTX 4090", 24 * GIB))
    return stub.environment


def measure(seconds: float, directory: Path, cards: int, terms: str) -> dict[str, object]:
    wallet, data = new_wallet(), directory / "provider"
    data.mkdir(mode=0o700)
    (data / "provider.toml").write_text(terms)
    with server(directory, wallet.address) as url:
        arguments: list[str | Path] = ["provide", url, "--data-dir", directory]
        variables = {"POTLUCK_WALLET_KEY": wallet.key, **rig(directory, cards)}
        with started(arguments, variables, directory / "provider.log") as provider:
            until_measured(data, _MEASURED_WITHIN_SECONDS)
            time.sleep(_QUIET_SECONDS)
            return watch(provider.process.pid, seconds) | {
                "devices": [device["model"] for device in provider.first["devices"]]
            }


def until_measured(data: Path, within_seconds: float) -> None:
    """A device is measured once in its life, which is no part of waiting for work."""
    latest = time.monotonic() + within_seconds
    while time.monotonic() < latest and not (data / "measured.json").exists():
        time.sleep(0.1)


def watch(pid: int, seconds: float) -> dict[str, object]:
    began, first = time.monotonic(), look(pid)
    seen = [first]
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
        seen.append(look(pid))
    over = time.monotonic() - began
    cpu_seconds = seen[-1].cpu_seconds - first.cpu_seconds
    percent = 100 * cpu_seconds / over
    rss = max(each.rss_mb for each in seen)
    return {
        "seconds": round(over, 1),
        "cpu_seconds": round(cpu_seconds, 2),
        "cpu_percent_of_core": round(percent, 3),
        "rss_mb_peak": round(rss, 1),
        "pss_mb_peak": round(max(each.pss_mb for each in seen), 1),
        "processes_most": max((each.processes for each in seen), key=len),
        "goals": {"cpu_percent_of_core": MOST_CPU_PERCENT, "rss_mb_peak": MOST_RSS_MB},
        "is_met": percent < MOST_CPU_PERCENT and rss < MOST_RSS_MB,
        "cores": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--cards", type=int, default=0)
    parser.add_argument("--terms", default="", help="of provider.toml")
    parser.add_argument("--json", action="store_true", help="the only form there is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        found = measure(arguments.seconds, Path(name), arguments.cards, arguments.terms)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
