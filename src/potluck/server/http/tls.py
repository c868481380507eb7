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


class Loaded(Struct, frozen=True):
    """A certificate with its key, as files had them."""

    context: ssl.SSLContext
    ends_at: datetime | None  # None if it cannot be told


class Tls:
    """The certificate that this server presents. A file that cannot be used changes nothing."""

    def __init__(self, load: Callable[[], Loaded], authority_pem: bytes | None = None) -> None:
        self._load = load
        self._loaded = load()
        self.authority_pem = authority_pem  # the private one, which clients pin
        self.context = self._loaded.context
        # Loading into the context in use would leave it without a certificate if that fails.
        self.context.sni_callback = self._present

    @property
    def fingerprint(self) -> str | None:
        return None if self.authority_pem is None else authority.fingerprint(self.authority_pem)

    def ends_at(self) -> datetime | None:
        """When the certificate that is presented expires; None if it cannot be told."""
        return self._loaded.ends_at

    async def keep_fresh(self, every_seconds: float) -> None:
        """Reloads replaced files, and renews our own certificate, without a restart."""
        while True:
            await asyncio.sleep(every_seconds)
            self.reload()

    def reload(self) -> None:
        try:
            self._loaded = self._load()
        except (BadSettings, OSError, ValueError) as error:  # such as a full disk
            log.error("cannot renew the certificate", error=str(error))

    def _present(self, handshake: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        handshake.context = self._loaded.context


def open_tls(
    settings: HttpSettings, data_directory: Path, names: Callable[[], Sequence[str]]
) -> Tls | None:
    """None for plain HTTP. `names` is called again at each renewal."""
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificate, key = settings.tls_cert, settings.tls_key
        tls = Tls(lambda: _load_files(certificate, key))
        check_private(key, group_may=True)
        return tls
    if settings.tls is None:
        return None

    def issue() -> authority.Issued:
        return authority.ensure_certificate(data_directory / _DIRECTORY, names())

    def load() -> Loaded:
        issued = issue()
        return _load_files(issued.certificate, issued.key)

    return Tls(load, issue().authority_pem)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_files(certificate: Path, key: Path) -> Loaded:
    context = _context()
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"The certificate {certificate} with the key {key} cannot be used: {error}.",
            "Both must be PEM files: the certificate first, then its intermediates; the key without"
            " a password.",
        ) from error
    return Loaded(context, _read_end(certificate))


def _read_end(certificate: Path) -> datetime | None:
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None


def _no_password() -> str:
    """Keeps OpenSSL from asking on the terminal."""
    return ""
