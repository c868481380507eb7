"""TLS as the settings say: files of the operator's, or a private authority of our own."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from potluck.local.private_files import check_private
from potluck.model.error import BadSettings
from potluck.server.http import authority
from potluck.server.http.settings import HttpSettings

# Forward secrecy and authenticated encryption only; TLS 1.3 has nothing else anyway.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_DIRECTORY = "tls"

log = structlog.get_logger()


class Tls(Struct, frozen=True):
    context: ssl.SSLContext
    authority_pem: bytes | None  # of our own, which clients pin
    _load: Callable[[ssl.SSLContext], None]

    @property
    def fingerprint(self) -> str | None:
        return None if self.authority_pem is None else authority.fingerprint(self.authority_pem)

    async def keep_fresh(self, every_seconds: float) -> None:
        """Takes up files that were replaced, and renews our own: no restart for a certificate."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                self._load(self.context)
            except (BadSettings, OSError, ValueError) as error:  # a full disk is no end either
                log.error("the certificate can not be renewed", error=str(error))


def open_tls(
    settings: HttpSettings, data_directory: Path, names: Callable[[], Sequence[str]]
) -> Tls | None:
    """None where the server speaks plain HTTP. `names` are asked again at each renewal."""
    context = _context()
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificate, key = settings.tls_cert, settings.tls_key
        _load_files(context, certificate, key)
        check_private(key, group_may=True)
        return Tls(context, None, lambda context: _load_files(context, certificate, key))
    if settings.tls is None:
        return None
    directory = data_directory / _DIRECTORY

    def load(context: ssl.SSLContext) -> None:
        found = authority.issued(directory, names())
        _load_files(context, found.certificate, found.key)

    load(context)
    return Tls(context, authority.issued(directory, names()).authority_pem, load)


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
            f"The certificate {certificate} with the key {key} can not be used: {error}.",
            "Both are PEM files; the certificate comes first in its file, then those that vouch"
            " for it, and the key has no password.",
        ) from error


def _no_password() -> str:
    """Otherwise OpenSSL would ask on the terminal, and a service has none."""
    return ""
