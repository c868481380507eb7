"""Which certificates are believed: those the system believes, or one authority that was pinned.

There is no way to believe any. A pool's own authority is fetched once, unseen, and kept only if it
has the fingerprint that came with the invitation to the pool.
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


def context(ca: Path | None) -> ssl.SSLContext:
    """For connections to a server: the pinned authority alone, or the system's."""
    try:
        chosen = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"The certificate authority in {ca} can not be read: {error}.",
            "Sign in again with --ca-fingerprint, which fetches it anew.",
        ) from error
    chosen.minimum_version = ssl.TLSVersion.TLSv1_2
    return chosen


def fetch_ca(certificate_url: str, fingerprint: str) -> str:
    """The authority's certificate as PEM, if it is the one with this fingerprint."""
    wanted = checked_fingerprint(fingerprint)
    der = _der(_fetched(certificate_url))
    found = _PREFIX + hashlib.sha256(der).hexdigest()
    if not hmac.compare_digest(found, wanted):
        raise BadSettings(
            "The server's certificate authority is not the one that --ca-fingerprint names.",
            "Compare it with what the server printed at its start. If they differ, somebody may be"
            " between you and the server.",
        )
    # Written from what was compared: nothing else that came along is believed.
    return ssl.DER_cert_to_PEM_cert(der)


def checked_fingerprint(text: str) -> str:
    """In the one form that is compared; colons and capitals are as good."""
    digits = text.strip().lower().removeprefix(_PREFIX).replace(":", "")
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise BadSettings(
            f"--ca-fingerprint is {text!r}, which is not a fingerprint.",
            "Copy the one that the server printed: sha256: and 64 digits.",
        )
    return _PREFIX + digits


def require_https(url: str) -> None:
    """A fingerprint says something about a certificate; without one it would say nothing."""
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
            HTTPSConnection(parts.hostname, parts.port, timeout=_FETCH_SECONDS, context=_unseen())
        ) as connection:
            connection.request("GET", parts.path)
            answer = connection.getresponse()
            body = answer.read(_LARGEST_CERTIFICATE)
    except (OSError, HTTPException) as error:
        raise ServerUnreachable(
            f"Nothing answers at {parts.scheme}://{parts.netloc} ({error}).",
            "Is the server running, and is the address right?",
        ) from error
    if answer.status != 200:
        raise BadSettings(
            "That server has no certificate authority of its own.",
            "Leave --ca-fingerprint out; the system's authorities are used then.",
        )
    return body.decode("ascii", "replace")


def _unseen() -> ssl.SSLContext:
    """Believes anybody; good for nothing but a certificate that is then compared."""
    chosen = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    chosen.check_hostname = False
    chosen.verify_mode = ssl.CERT_NONE
    return chosen


def _der(pem: str) -> bytes:
    """Of exactly one certificate: the codec would skip over the seam between two."""
    try:
        if pem.count("-----BEGIN") != 1:
            raise ValueError("not one certificate")
        return ssl.PEM_cert_to_DER_cert(pem.strip())
    except ValueError as error:
        raise BadSettings(
            "What the server sent as its certificate authority is no certificate.",
            "Compare `potluck version` here and there.",
        ) from error
