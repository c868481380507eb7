"""Checks the installer and the package index for tasks' dependencies."""

import os
import socket
from collections.abc import Iterator

from potluck.cli.doctor.finding import CheckedMachine, Finding, failed_with, passed, warned
from potluck.cli.doctor.with_timeout import call_with_timeout
from potluck.model.error import PotluckError

_NEEDED = "reachable, for tasks with dependencies"


def check_package_index(machine: CheckedMachine) -> Iterator[Finding]:
    yield _check_installer()
    yield from _check_hosts(machine.seconds)


def _check_installer() -> Finding:
    from potluck.provider.dependencies.installer import find_uv

    try:
        return passed("uv", str(find_uv()), "installs tasks' dependencies")
    except PotluckError as error:
        return failed_with("uv", error, "installs tasks' dependencies")


def _check_hosts(seconds: float) -> Iterator[Finding]:
    """Opens connections only; sends no request to the index."""
    from potluck.provider.dependencies.package_index import PackageIndex, parse_hosts

    url = os.environ.get("POTLUCK_PROVIDER_INDEX_URL") or PackageIndex().url
    hosts = parse_hosts(os.environ.get("POTLUCK_PROVIDER_INDEX_HOSTS", ""))
    try:
        endpoints = sorted(PackageIndex(url, hosts).endpoints())
    except PotluckError as error:
        yield failed_with("package index", error, _NEEDED)
        return
    for endpoint in endpoints:
        yield _check_endpoint(endpoint, seconds)


def _check_endpoint(endpoint: tuple[str, int], seconds: float) -> Finding:
    host, port = endpoint
    try:
        call_with_timeout(seconds, lambda: socket.create_connection(endpoint, seconds).close())
    except OSError as error:
        why = error.strerror or str(error)
        fix = "Use an index that this machine can reach: potluck provide URL --index-url URL"
        return warned("package index", f"{host} port {port}: {why}", _NEEDED, fix)
    return passed("package index", f"{host} port {port} is open", _NEEDED)
