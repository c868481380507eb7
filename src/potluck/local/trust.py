"""Trust in certificates: the system's authorities, or one pinned authority.

Verification cannot be turned off. A pool's own authority is fetched once, unverified, and kept only
if it has the fingerprint that came with the invitation to the pool.
"""

import hashlib
import hmac
import ssl
from contextlib import closing
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from potluck.model.error import BadSettings, ServerUnreachable

_LARGEST_CERTIFICATE = 64 * 1024
_FETCH_SECONDS = 10.0
_PREFIX = "sha256:"


def make_tls_context(ca: Path | None) -> ssl.SSLContext:
    """The TLS context for a server: the pinned authority alone, or the system's."""
    try:
        chosen = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"The certificate authority in {ca} cannot be read: {error}.",
            "Sign in again with --ca-fingerprint to fetch it again.",
        ) from error
    chosen.minimum_version = ssl.TLSVersion.TLSv1_2
    return chosen


def fetch_ca(certificate_url: str, fingerprint: str) -> str:
    """The authority's certificate as PEM; raises if its fingerprint differs."""
    expected = normalize_fingerprint(fingerprint)
    der = _der(_fetched(certificate_url))
    actual = _PREFIX + hashlib.sha256(der).hexdigest()
    if not hmac.compare_digest(actual, expected):
        raise BadSettings(
            "The server's certificate authority has another fingerprint than --ca-fingerprint.",
            "Compare it with the one that the server printed at its start. If they differ, someone"
            " may be intercepting the connection.",
        )
    # Made from the bytes that were compared: nothing else in the response is trusted.
    return ssl.DER_cert_to_PEM_cert(der)


def normalize_fingerprint(text: str) -> str:
    """The normal form; colons and capitals are accepted."""
    digits = text.strip().lower().removeprefix(_PREFIX).replace(":", "")
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise BadSettings(
            f"--ca-fingerprint is {text!r}, which is not a fingerprint.",
            "Copy the one that the server printed: sha256: and 64 digits.",
        )
    return _PREFIX + digits


def require_https(url: str) -> None:
    """A fingerprint has no effect without TLS."""
    if not url.startswith("https://"):
        raise BadSettings(
            "A fingerprint was given, but the address does not begin with https.",
            "Use the address that the server printed.",
        )


def _fetched(certificate_url: str) -> str:
    parts = urlsplit(certificate_url)
    assert parts.hostname is not None
    try:
        with closing(
            HTTPSConnection(
                parts.hostname, parts.port, timeout=_FETCH_SECONDS, context=_unverified()
            )
        ) as connection:
            connection.request("GET", parts.path)
            answer = connection.getresponse()
            body = answer.read(_LARGEST_CERTIFICATE)
    except (OSError, HTTPException) as error:
        raise ServerUnreachable(
            f"Nothing answers at {parts.scheme}://{parts.netloc} ({error}).",
            "Check that the server is running and that the address is right.",
        ) from error
    if answer.status != 200:
        raise BadSettings(
            "That server has no certificate authority of its own.",
            "Leave --ca-fingerprint out to use the system's authorities.",
        )
    return body.decode("ascii", "replace")


def _unverified() -> ssl.SSLContext:
    """Verifies nothing; only for fetching a certificate that is then compared."""
    chosen = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    chosen.check_hostname = False
    chosen.verify_mode = ssl.CERT_NONE
    return chosen


def _der(pem: str) -> bytes:
    """Decodes exactly one certificate: the codec would ignore the boundary between two."""
    try:
        if pem.count("-----BEGIN") != 1:
            raise ValueError("not one certificate")
        return ssl.PEM_cert_to_DER_cert(pem.strip())
    except ValueError as error:
        raise BadSettings(
            "The server's certificate authority is not a valid certificate.",
            "Compare `potluck version` on both machines.",
        ) from error
