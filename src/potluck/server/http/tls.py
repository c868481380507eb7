"""TLS with files of the operator, or with the private authority."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import structlog
from cryptography import x509
from msgspec import Struct

from potluck.local.durable_files import check_private
from potluck.model.error import BadSettings
from potluck.server.http import authority
from potluck.server.http.settings import HttpSettings

# Forward secrecy and authenticated encryption only, as in TLS 1.3.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_DIRECTORY = "tls"

log = structlog.get_logger()


class Tls(Struct, frozen=True):
    context: ssl.SSLContext
    authority_pem: bytes | None  # the private one, which clients pin
    certificate: Path
    _load: Callable[[ssl.SSLContext], None]

    @property
    def fingerprint(self) -> str | None:
        return None if self.authority_pem is None else authority.fingerprint(self.authority_pem)

    def ends_at(self) -> datetime | None:
        """When the certificate expires; None if it cannot be read just now."""
        try:
            return x509.load_pem_x509_certificate(self.certificate.read_bytes()).not_valid_after_utc
        except (OSError, ValueError):
            return None

    async def keep_fresh(self, every_seconds: float) -> None:
        """Reloads replaced files, and renews our own certificate, without a restart."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                self._load(self.context)
            except (BadSettings, OSError, ValueError) as error:  # such as a full disk
                log.error("cannot renew the certificate", error=str(error))


def open_tls(
    settings: HttpSettings, data_directory: Path, names: Callable[[], Sequence[str]]
) -> Tls | None:
    """None for plain HTTP. `names` is called again at each renewal."""
    context = _context()
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificate, key = settings.tls_cert, settings.tls_key
        _load_files(context, certificate, key)
        check_private(key, group_may=True)
        return Tls(context, None, certificate, lambda hello: _load_files(hello, certificate, key))
    if settings.tls is None:
        return None
    directory = data_directory / _DIRECTORY

    def load(context: ssl.SSLContext) -> None:
        issued = authority.ensure_certificate(directory, names())
        _load_files(context, issued.certificate, issued.key)

    load(context)
    issued = authority.ensure_certificate(directory, names())
    return Tls(context, issued.authority_pem, issued.certificate, load)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_files(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"The certificate {certificate} with the key {key} cannot be used: {error}.",
            "Both must be PEM files: the certificate first, then its intermediates; the key without"
            " a password.",
        ) from error


def _no_password() -> str:
    """Keeps OpenSSL from asking on the terminal."""
    return ""
