"""What stands between a task and this machine, found out by running something in it."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.cli.doctor.finding import Finding, Patient, failed_by, odd, skipped, well, wrong
from potluck.cli.provider.local import Here
from potluck.model.error import PotluckError
from potluck.model.node import SandboxReport
from potluck.model.terms import TaskKind

if TYPE_CHECKING:
    from potluck.provider.sandbox.choose import Chosen

_DOCKER_URL = "POTLUCK_PROVIDER_DOCKER_URL"
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
    sandbox = _in_force(patient.directory)
    if sandbox == "none":
        is_known = sys.platform == "linux"
        fix = "potluck provider set sandbox=bwrap" if is_known else "Provide from Linux."
        yield odd("sandbox", _WITHOUT, needed, fix)
        yield from (skipped(f"wall: {wall}", "there is no sandbox") for wall in _WALLS)
        return
    try:
        chosen = asyncio.run(_probe(patient.directory, sandbox))
    except PotluckError as error:
        yield failed_by("sandbox", error, needed)
        yield from (skipped(f"wall: {wall}", "needs: sandbox") for wall in _WALLS)
        yield from kernel(is_working=False)
    else:
        yield well("sandbox", f"{chosen.report.driver}, tried out", needed)
        yield from walls(chosen.report)
        yield containers(chosen.report, chosen.containers)
        yield from kernel(is_working=True)


def containers(sandbox: SandboxReport, beside: SandboxReport | None) -> Finding:
    """Where images are run; many do well without."""
    name, needed = "containers", "an engine that images can run in"
    report = sandbox if TaskKind.CONTAINER in sandbox.kinds else beside
    if report is None:
        return skipped(name, "there is no engine that this user may talk to", needed)
    return well(name, f"{'; '.join(report.notes)}, tried out", needed)


def walls(report: SandboxReport) -> Iterator[Finding]:
    for wall, keeps_from in _WALLS.items():
        mechanism: str = getattr(report, wall)
        name, needed = f"wall: {wall}", f"keeps a task from {keeps_from}"
        is_firm = mechanism != "none" and (wall not in _COUNTED or "cgroup" in mechanism)
        found = "nothing" if mechanism == "none" else f"by {mechanism}"
        yield well(name, found, needed) if is_firm else odd(name, found, needed, _DELEGATE)


def _in_force(directory: Path) -> str:
    """The sandbox that tasks run in now, or from the next start on where no provider runs."""
    from potluck.provider.owner.file import read_file, terms_file

    try:
        status = Here(directory).running()
        said = read_file(terms_file(directory)).everywhere.sandbox if status is None else None
    except PotluckError:  # which is another check's finding
        return "bwrap"
    if status is not None:
        return status.sandbox.driver
    return said if isinstance(said, str) else "bwrap"


async def _probe(directory: Path, sandbox: str) -> "Chosen":
    from potluck.provider.sandbox.choose import DriverSite, choose

    return await choose(DriverSite(directory, "doctor", os.environ.get(_DOCKER_URL, "")), sandbox)


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
