"""Checks the server step by step: its name, the connection, the certificate, its responses."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from msgspec import Struct

from potluck import __version__
from potluck.cli.doctor.finding import CheckedMachine, Finding, failed, passed, skipped, warned
from potluck.cli.doctor.with_timeout import call_with_timeout
from potluck.local.trust import make_tls_context
from potluck.model.error import PotluckError
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth, ServerReadiness
from potluck.wire.response import decode_response

_SKEW_SECONDS = 30.0
_LARGEST_ANSWER = 100_000
_STEPS = ("server name", "connection", "certificate", "server", "version", "readiness", "clock")


class _ServerResponse(Struct, frozen=True):
    status: int
    body: bytes
    date: str | None


def check_server(machine: CheckedMachine) -> Iterator[Finding]:
    """Each step needs the previous one; after the first failure, the others are skipped."""
    if machine.url is None:
        yield warned("server", "none is known", "an address", "potluck login URL (or potluck up)")
        return
    steps = iter(_STEPS)
    try:
        for finding in _run_steps(machine, machine.url):
            next(steps)
            yield finding
    except _StepFailed as failure:
        next(steps)
        yield failure.finding
        yield from (skipped(name, f"needs: {failure.finding.name}") for name in steps)


class _StepFailed(Exception):
    """A step failed, and the remaining steps cannot run."""

    def __init__(self, finding: Finding):
        super().__init__(finding.found)
        self.finding = finding


def _run_steps(machine: CheckedMachine, url: str) -> Iterator[Finding]:
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
    yield _check_name(host, port, machine.seconds)
    yield _check_connection(host, port, machine.seconds)
    yield _check_certificate(host, port, machine) if address.scheme == "https" else _in_the_clear()
    health = _request(machine, url, routes.HEALTHZ.path)
    yield passed("server", f"alive at {url}", "an answer")
    yield _check_version(health, url)
    yield _check_readiness(_request(machine, url, routes.READYZ.path), url)
    yield check_clock(health.date)


def _check_name(host: str, port: int, seconds: float) -> Finding:
    try:
        addresses = call_with_timeout(
            seconds, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except OSError as error:
        raise _StepFailed(
            failed(
                "server name",
                f"{host}: {_reason(error)}",
                "an address",
                f"Check the spelling of {host!r}, and that this machine has a network: getent"
                f" hosts {host}",
            )
        ) from error
    return passed("server name", f"{host} is {addresses[0][4][0]}", "an address")


def _check_connection(host: str, port: int, seconds: float) -> Finding:
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        raise _StepFailed(
            failed(
                "connection",
                f"{host} port {port}: {_reason(error)}",
                "a listening server",
                "Is the server running (`potluck up`, `potluck server`)? Does a firewall block"
                f" port {port}?",
            )
        ) from error
    return passed("connection", f"{host} port {port} is open", "a listening server")


def _check_certificate(host: str, port: int, machine: CheckedMachine) -> Finding:
    authority = f"by {machine.ca_file}" if machine.ca_file else "by the system's authorities"
    try:
        with (
            socket.create_connection((host, port), machine.seconds) as plain,
            make_tls_context(machine.ca_file).wrap_socket(plain, server_hostname=host) as secure,
        ):
            found = f"trusted {authority}, {secure.version()}"
    except (OSError, PotluckError) as error:
        raise _StepFailed(
            failed(
                "certificate",
                f"not trusted {authority}: {_reason(error)}",
                "issued for this name by a trusted authority",
                f"potluck login https://{host}:{port} --ca-fingerprint sha256:… (as the server"
                " printed it)",
            )
        ) from error
    return passed("certificate", found, "a trusted one")


def _in_the_clear() -> Finding:
    return skipped("certificate", "not needed: the connection is local", "https")


def _request(machine: CheckedMachine, url: str, path: str) -> _ServerResponse:
    try:
        return _get(machine, url, path)
    except (OSError, http.client.HTTPException, PotluckError) as error:
        raise _StepFailed(
            failed(
                "server",
                f"no answer at {url}{path}: {_reason(error)}",
                "an answer",
                "Another program may listen there, or the server hangs: see its log.",
            )
        ) from error


def _get(machine: CheckedMachine, url: str, path: str) -> _ServerResponse:
    address = urlsplit(url)
    host = address.hostname or ""
    connection = (
        http.client.HTTPSConnection(
            host, address.port, timeout=machine.seconds, context=make_tls_context(machine.ca_file)
        )
        if address.scheme == "https"
        else http.client.HTTPConnection(host, address.port, timeout=machine.seconds)
    )
    with closing(connection):
        connection.request("GET", path, headers={"User-Agent": f"potluck/{__version__}"})
        response = connection.getresponse()
        return _ServerResponse(
            response.status, response.read(_LARGEST_ANSWER), response.headers["Date"]
        )


def _check_version(response: _ServerResponse, url: str) -> Finding:
    try:
        theirs = decode_response(response.body, ServerHealth, url).version
    except PotluckError as error:
        raise _StepFailed(
            failed(
                "version",
                "the responding program is not a Potluck server",
                "a Potluck server",
                "Check the address: potluck login URL",
            )
        ) from error
    if theirs != __version__:
        fix = f"Install {theirs} here, or {__version__} on the server."
        return warned("version", f"{__version__} here, {theirs} on the server", "the same", fix)
    return passed("version", f"{theirs} on both sides", "the same on both sides")


def _check_readiness(response: _ServerResponse, url: str) -> Finding:
    try:
        readiness = decode_response(response.body, ServerReadiness, url)
        causes = [f"{part}: {state}" for part, state in readiness.parts.items() if state != "ok"]
        why = "; ".join(causes) or f"status {response.status}"
    except PotluckError:
        readiness, why = None, f"status {response.status}"
    fix = "Wait a moment; if it persists, see the log of the server and of its PostgreSQL."
    if response.status != 200 or readiness is None:
        return failed("readiness", f"not ready ({why})", "ready", fix)
    if readiness.status != "ok":
        return warned("readiness", f"{readiness.status} ({why})", "ready", fix)
    return passed("readiness", "ready", "ready")


def check_clock(date: str | None) -> Finding:
    """Compares with the server's Date header, because signatures and tokens expire."""
    needed = f"within {_SKEW_SECONDS:.0f} s of the server's"
    if date is None:
        return skipped("clock", "the server sends no Date header", needed)
    try:
        ahead_seconds = (datetime.now(UTC) - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        return skipped("clock", "the server's Date header is invalid", needed)
    if abs(ahead_seconds) <= _SKEW_SECONDS:
        return passed("clock", f"{abs(ahead_seconds):.0f} s apart", needed)
    direction = "ahead of" if ahead_seconds > 0 else "behind"
    fix = "sudo timedatectl set-ntp true"
    return failed("clock", f"{abs(ahead_seconds):.0f} s {direction} the server's", needed, fix)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, PotluckError):
        return error.detail
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
