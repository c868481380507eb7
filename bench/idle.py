"""What a provider costs its machine while it waits for work.

    make bench-idle                            ten minutes
    python -m bench.idle --seconds 60          as long as you like

Starts a server and a provider with their usual times on loopback, waits until the node is
registered and all is quiet, and then watches the provider and every process below it. Prints JSON.
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


def measure(seconds: float, directory: Path, options: list[str]) -> dict[str, object]:
    wallet = new_wallet()
    with server(directory, wallet.address) as url:
        arguments = ["provide", url, "--data-dir", directory / "provider", *options]
        variables = {"POTLUCK_WALLET_KEY": wallet.key}
        with started(arguments, variables, directory / "provider.log") as provider:
            time.sleep(_QUIET_SECONDS)
            return watch(provider.process.pid, seconds) | {
                "devices": [device["model"] for device in provider.first["devices"]]
            }


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
    parser.add_argument("options", nargs="*", help="further options of `potluck provide`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as name:
        found = measure(arguments.seconds, Path(name), arguments.options)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
