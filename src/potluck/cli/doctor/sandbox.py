"""What stands between a task and this machine, found out by running something in it."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from potluck.cli.doctor.finding import Finding, Patient, failed_by, odd, skipped, well, wrong
from potluck.cli.provider.here import Here
from potluck.model.error import PotluckError
from potluck.model.node import SandboxReport

# What each wall keeps a task from.
_WALLS = {
    "memory": "taking more memory than it asked for",
    "processes": "starting processes without end",
    "cpu": "taking more cores than it asked for",
    "disk": "filling the disk",
    "network": "reaching the network",
    "syscalls": "most of what the kernel can be asked for",
    "user": "being you",
}
_WITHOUT = "none: only your own tasks are taken, and they run without walls"
# Walls that hold firmly only if the kernel counts for us.
_COUNTED = ("memory", "processes", "cpu")
_DELEGATE = "systemd-run --user --scope -p Delegate=yes potluck provide URL"
_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def look_at_sandbox(patient: Patient) -> Iterator[Finding]:
    needed = "one that strangers' code can run in"
    if _is_without(patient.directory):
        is_known = sys.platform == "linux"
        fix = "potluck provider set sandbox=bwrap" if is_known else "Provide from Linux."
        yield odd("sandbox", _WITHOUT, needed, fix)
        yield from (skipped(f"wall: {wall}", "there is no sandbox") for wall in _WALLS)
        return
    try:
        report = asyncio.run(_probe(patient.directory))
    except PotluckError as error:
        yield failed_by("sandbox", error, needed)
        yield from (skipped(f"wall: {wall}", "needs: sandbox") for wall in _WALLS)
        yield from kernel(is_working=False)
    else:
        yield well("sandbox", f"{report.driver}, tried out", needed)
        yield from walls(report)
        yield from kernel(is_working=True)


def walls(report: SandboxReport) -> Iterator[Finding]:
    for wall, keeps_from in _WALLS.items():
        mechanism: str = getattr(report, wall)
        name, needed = f"wall: {wall}", f"keeps a task from {keeps_from}"
        is_firm = mechanism != "none" and (wall not in _COUNTED or "cgroup" in mechanism)
        found = "nothing" if mechanism == "none" else f"by {mechanism}"
        yield well(name, found, needed) if is_firm else odd(name, found, needed, _DELEGATE)


def _is_without(directory: Path) -> bool:
    """Whether the owner goes without: now, or from the next start on where none runs."""
    from potluck.provider.owner.file import read_file, terms_file

    try:
        status = Here(directory).running()
        if status is None:
            return read_file(terms_file(directory)).everywhere.sandbox == "none"
    except PotluckError:  # which is another check's finding
        return False
    return not status.sandbox.is_safe_for_strangers


async def _probe(directory: Path) -> SandboxReport:
    from potluck.provider.sandbox.choose import choose

    _, report = await choose(directory, "doctor", False)
    return report


def kernel(
    is_working: bool, namespaces: Path = _NAMESPACES, apparmor: Path = _APPARMOR
) -> Iterator[Finding]:
    """Settings that the sandbox stands on, where this kernel has them."""
    name = "user namespaces"
    maximum, restricted = _read(namespaces), _read(apparmor)
    if maximum is None:
        yield skipped(name, "this kernel has no such setting", "allowed")
    elif maximum == "0":
        fix = "sudo sysctl -w user.max_user_namespaces=10000"
        yield odd(name, "none are allowed", "allowed", fix)
    else:
        yield well(name, f"up to {maximum}", "allowed")
    if restricted != "1":
        return
    found, needed = "keeps ordinary programs from user namespaces", "lets bwrap have them"
    if is_working:
        yield well("AppArmor", f"{found}, and lets bwrap have them", needed)
    else:
        fix = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        yield wrong("AppArmor", found, needed, fix)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
