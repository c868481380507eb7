"""Where tasks' dependencies come from: the program that installs them, and the index."""

import os
import socket
from collections.abc import Iterator

from potluck.cli.doctor.finding import Finding, Patient, failed_by, odd, well
from potluck.cli.doctor.with_timeout import bounded
from potluck.model.error import PotluckError

_NEEDED = "reachable, for tasks with dependencies"


def look_at_index(patient: Patient) -> Iterator[Finding]:
    yield _installer()
    yield from _reachable(patient.seconds)


def _installer() -> Finding:
    from potluck.provider.dependencies.installer import find_uv

    try:
        return well("uv", str(find_uv()), "installs tasks' dependencies")
    except PotluckError as error:
        return failed_by("uv", error, "installs tasks' dependencies")


def _reachable(seconds: float) -> Iterator[Finding]:
    """Connections only: nothing is asked of the index."""
    from potluck.provider.dependencies.package_index import PackageIndex, hosts_of

    url = os.environ.get("POTLUCK_PROVIDER_INDEX_URL") or PackageIndex().url
    hosts = hosts_of(os.environ.get("POTLUCK_PROVIDER_INDEX_HOSTS", ""))
    try:
        endpoints = sorted(PackageIndex(url, hosts).endpoints())
    except PotluckError as error:
        yield failed_by("package index", error, _NEEDED)
        return
    for endpoint in endpoints:
        yield _open(endpoint, seconds)


def _open(endpoint: tuple[str, int], seconds: float) -> Finding:
    host, port = endpoint
    try:
        bounded(seconds, lambda: socket.create_connection(endpoint, seconds).close())
    except OSError as error:
        why = error.strerror or str(error)
        fix = "Name an index that this machine reaches: potluck provide URL --index-url URL"
        return odd("package index", f"{host} port {port}: {why}", _NEEDED, fix)
    return well("package index", f"{host} port {port} is open", _NEEDED)
