"""The way to the server, step by step: its name, the connection, its certificate, its answers."""

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
from potluck.cli.doctor.finding import Finding, Patient, odd, skipped, well, wrong
from potluck.cli.doctor.with_timeout import bounded
from potluck.local.trust import context
from potluck.model.error import PotluckError
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth
from potluck.wire.response import decoded

_SKEW_SECONDS = 30.0
_LARGEST_ANSWER = 100_000
_STEPS = ("server name", "connection", "certificate", "server", "version", "readiness", "clock")


class _ServerResponse(Struct, frozen=True):
    status: int
    body: bytes
    date: str | None


def look_at_server(patient: Patient) -> Iterator[Finding]:
    """Each step needs the one before it; the first that fails is the one to mend."""
    if patient.url is None:
        yield odd("server", "none is known", "an address", "potluck login URL (or potluck up)")
        return
    steps = iter(_STEPS)
    try:
        for finding in _steps(patient, patient.url):
            next(steps)
            yield finding
    except _NoConnection as broken:
        next(steps)
        yield broken.finding
        yield from (skipped(name, f"needs: {broken.finding.name}") for name in steps)


class _NoConnection(Exception):
    """There is no way beyond this."""

    def __init__(self, finding: Finding):
        super().__init__(finding.found)
        self.finding = finding


def _steps(patient: Patient, url: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    yield _resolved(host, port, patient.seconds)
    yield _connected(host, port, patient.seconds)
    yield _trusted(host, port, patient) if parts.scheme == "https" else _in_the_clear()
    health = _asked(patient, url, routes.HEALTHZ.path)
    yield well("server", f"alive at {url}", "an answer")
    yield _same_version(health, url)
    yield _ready(_asked(patient, url, routes.READYZ.path), url)
    yield clock(health.date)


def _resolved(host: str, port: int, seconds: float) -> Finding:
    try:
        found = bounded(seconds, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError as error:
        raise _NoConnection(
            wrong(
                "server name",
                f"{host}: {_reason(error)}",
                "an address",
                f"Check the spelling of {host!r}, and that this machine has a network: getent"
                f" hosts {host}",
            )
        ) from error
    return well("server name", f"{host} is {found[0][4][0]}", "an address")


def _connected(host: str, port: int, seconds: float) -> Finding:
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        raise _NoConnection(
            wrong(
                "connection",
                f"{host} port {port}: {_reason(error)}",
                "somebody who listens there",
                "Is the server running there (`potluck up`, `potluck server`)? Does a firewall let"
                f" port {port} through?",
            )
        ) from error
    return well("connection", f"{host} port {port} is open", "somebody who listens there")


def _trusted(host: str, port: int, patient: Patient) -> Finding:
    believed = f"by {patient.ca_file}" if patient.ca_file else "by the system's authorities"
    try:
        with (
            socket.create_connection((host, port), patient.seconds) as plain,
            context(patient.ca_file).wrap_socket(plain, server_hostname=host) as secure,
        ):
            found = f"believed {believed}, {secure.version()}"
    except (OSError, PotluckError) as error:
        raise _NoConnection(
            wrong(
                "certificate",
                f"not believed {believed}: {_reason(error)}",
                "one for this name, from an authority that is believed",
                f"potluck login https://{host}:{port} --ca-fingerprint sha256:… (as the server"
                " printed it)",
            )
        ) from error
    return well("certificate", found, "one that is believed")


def _in_the_clear() -> Finding:
    return skipped("certificate", "not needed: the connection stays on this machine", "https")


def _asked(patient: Patient, url: str, path: str) -> _ServerResponse:
    try:
        return _get(patient, url, path)
    except (OSError, http.client.HTTPException, PotluckError) as error:
        raise _NoConnection(
            wrong(
                "server",
                f"no answer at {url}{path}: {_reason(error)}",
                "an answer",
                "Something else may listen there, or the server hangs: look at its log.",
            )
        ) from error


def _get(patient: Patient, url: str, path: str) -> _ServerResponse:
    parts = urlsplit(url)
    host = parts.hostname or ""
    line = (
        http.client.HTTPSConnection(
            host, parts.port, timeout=patient.seconds, context=context(patient.ca_file)
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=patient.seconds)
    )
    with closing(line):
        line.request("GET", path, headers={"User-Agent": f"potluck/{__version__}"})
        answer = line.getresponse()
        return _ServerResponse(answer.status, answer.read(_LARGEST_ANSWER), answer.headers["Date"])


def _same_version(answer: _ServerResponse, url: str) -> Finding:
    try:
        theirs = decoded(answer.body, ServerHealth, url).version
    except PotluckError as error:
        raise _NoConnection(
            wrong(
                "version",
                "what answers there is no Potluck server",
                "a Potluck server",
                "Check the address: potluck login URL",
            )
        ) from error
    if theirs != __version__:
        fix = f"Install {theirs} here, or {__version__} there."
        return odd("version", f"{__version__} here, {theirs} there", "the same", fix)
    return well("version", f"{theirs} on both sides", "the same on both sides")


def _ready(answer: _ServerResponse, url: str) -> Finding:
    if answer.status == 200:
        return well("readiness", "takes work", "takes work")
    try:
        parts = decoded(answer.body, ServerHealth, url).parts
        why = "; ".join(f"{part}: {said}" for part, said in parts.items()) or str(answer.status)
    except PotluckError:
        why = f"status {answer.status}"
    fix = "Wait a moment; if it lasts, look at the server's log, and at its PostgreSQL."
    return wrong("readiness", f"not ready ({why})", "takes work", fix)


def clock(date: str | None) -> Finding:
    """By the server's own word; signatures and tokens are good for a time only."""
    needed = f"within {_SKEW_SECONDS:.0f} s of the server's"
    if date is None:
        return skipped("clock", "the server does not tell its time", needed)
    try:
        ahead = (datetime.now(UTC) - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        return skipped("clock", "the server tells its time in no known form", needed)
    if abs(ahead) <= _SKEW_SECONDS:
        return well("clock", f"{abs(ahead):.0f} s apart", needed)
    side = "ahead of" if ahead > 0 else "behind"
    fix = "sudo timedatectl set-ntp true"
    return wrong("clock", f"{abs(ahead):.0f} s {side} the server's", needed, fix)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, PotluckError):
        return error.detail
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
