"""Checks the sandbox by running a program in it."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.cli.doctor.finding import (
    CheckedMachine,
    Finding,
    failed,
    failed_with,
    passed,
    skipped,
    warned,
)
from potluck.cli.provider.local import LocalTarget
from potluck.model.error import PotluckError
from potluck.model.node import SandboxReport
from potluck.model.terms import TaskKind

if TYPE_CHECKING:
    from potluck.provider.sandbox.choose import ChosenSandbox

_DOCKER_URL = "POTLUCK_PROVIDER_DOCKER_URL"
# What each limit prevents.
_LIMITS = {
    "memory": "using more memory than requested",
    "processes": "starting unlimited processes",
    "cpu": "using more cores than requested",
    "disk": "filling the disk",
    "network": "reaching the network",
    "syscalls": "making most system calls",
    "user": "acting as your user",
}
_OWN_ONLY = "only your own tasks are accepted"
_NO_SANDBOX = f"none: {_OWN_ONLY}, and they run without isolation"
# Limits that are strict only if the kernel enforces them with cgroups.
_CGROUP_LIMITS = ("memory", "processes", "cpu")
_DELEGATE = "systemd-run --user --scope -p Delegate=yes potluck provide URL"
_ENGINE_GROUPS = (
    "Let the container engine use control groups (runsc: without --ignore-cgroups), or:"
    " potluck provider set sandbox=bwrap"
)
_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def check_sandbox(machine: CheckedMachine) -> Iterator[Finding]:
    needed = "isolates tasks of other accounts"
    sandbox = _configured_sandbox(machine.directory)
    if sandbox == "none":
        is_known = sys.platform == "linux"
        fix = "potluck provider set sandbox=bwrap" if is_known else "Provide from Linux."
        yield warned("sandbox", _NO_SANDBOX, needed, fix)
        yield from (skipped(f"wall: {limit}", "no sandbox") for limit in _LIMITS)
        return
    try:
        chosen = asyncio.run(_probe(machine.directory, sandbox))
    except PotluckError as error:
        yield failed_with("sandbox", error, needed)
        yield from (skipped(f"wall: {limit}", "needs: sandbox") for limit in _LIMITS)
        yield from check_kernel(is_working=False)
    else:
        yield check_strangers(
            "sandbox", f"{chosen.report.driver}, tried out", chosen.report, needed
        )
        yield from check_limits(chosen.report)
        yield check_containers(chosen.report, chosen.containers)
        yield from check_kernel(is_working=True)


def check_containers(sandbox: SandboxReport, containers: SandboxReport | None) -> Finding:
    """The container engine; it is optional."""
    name, needed = "containers", "a container engine"
    report = sandbox if TaskKind.CONTAINER in sandbox.kinds else containers
    if report is None:
        return skipped(name, "no engine that this user may use", needed)
    return check_strangers(name, f"{'; '.join(report.notes)}, tried out", report, needed)


def check_strangers(name: str, found: str, report: SandboxReport, needed: str) -> Finding:
    """Warns if tasks of other accounts are not accepted, because a limit is missing."""
    if report.is_safe_for_strangers:
        return passed(name, found, needed)
    why = f"{found}: {_OWN_ONLY}, because it {report.weakness}"
    return warned(name, why, needed, _fix(report))


def _fix(report: SandboxReport) -> str:
    return _DELEGATE if report.driver == "bwrap" else _ENGINE_GROUPS


def check_limits(report: SandboxReport) -> Iterator[Finding]:
    for limit, prevented in _LIMITS.items():
        mechanism: str = getattr(report, limit)
        name, needed = f"wall: {limit}", f"keeps a task from {prevented}"
        is_strict = mechanism != "none" and (limit not in _CGROUP_LIMITS or "cgroup" in mechanism)
        found = "nothing" if mechanism == "none" else f"by {mechanism}"
        yield (
            passed(name, found, needed) if is_strict else warned(name, found, needed, _fix(report))
        )


def _configured_sandbox(directory: Path) -> str:
    """The sandbox in effect, or that of the next start if no provider runs."""
    from potluck.provider.owner.file import read_file, terms_file

    try:
        status = LocalTarget(directory).running()
        configured = read_file(terms_file(directory)).everywhere.sandbox if status is None else None
    except PotluckError:  # reported by another check
        return "bwrap"
    if status is not None:
        return status.sandbox.driver
    return configured if isinstance(configured, str) else "bwrap"


async def _probe(directory: Path, sandbox: str) -> "ChosenSandbox":
    from potluck.provider.sandbox.choose import DriverSite, choose

    # On the disk that tasks would use, without leaving anything there.
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    where = existing if os.access(existing, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix=".potluck-doctor-") as trial:
        site = DriverSite(Path(trial), "doctor", os.environ.get(_DOCKER_URL, ""))
        return await choose(site, sandbox)


def check_kernel(
    is_working: bool, namespaces: Path = _NAMESPACES, apparmor: Path = _APPARMOR
) -> Iterator[Finding]:
    """The kernel settings that the sandbox depends on, if this kernel has them."""
    name = "user namespaces"
    maximum, restricted = _read(namespaces), _read(apparmor)
    if maximum is None:
        yield skipped(name, "this kernel has no such setting", "allowed")
    elif maximum == "0":
        fix = "sudo sysctl -w user.max_user_namespaces=10000"
        yield warned(name, "none are allowed", "allowed", fix)
    else:
        yield passed(name, f"up to {maximum}", "allowed")
    if restricted != "1":
        return
    found, needed = "restricts user namespaces", "allows bwrap to use them"
    if is_working:
        yield passed("AppArmor", f"{found}, but allows bwrap to use them", needed)
    else:
        fix = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        yield failed("AppArmor", found, needed, fix)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
