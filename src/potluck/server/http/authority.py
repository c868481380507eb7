"""A private certificate authority for one server, and the certificate that it signs.

Both are in the data directory, with keys that only the owner can read. Clients pin the authority's
fingerprint, so the certificate can be replaced when names change or it is about to expire.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from potluck.local.durable_files import write_atomically
from potluck.model.error import BadSettings

_AUTHORITY_LIFE = timedelta(days=3_650)
_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=120)
# Clocks differ: a new certificate must be valid for a client whose clock is behind.
_CLOCK_SKEW = timedelta(hours=1)


class Issued(Struct, frozen=True):
    """The paths of the server's certificate, and the authority that signed it."""

    certificate: Path
    key: Path
    authority_pem: bytes


def ensure_certificate(
    directory: Path, names: Sequence[str], now: datetime | None = None
) -> Issued:
    """A certificate for these names that is valid for a while; made only if necessary."""
    now = now or datetime.now(UTC)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, signing_key = _authority(directory, now)
    issued = Issued(directory / "server.pem", directory / "server-key.pem", _pem(authority))
    if not _is_good(issued, authority, names, now):
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _leaf(authority, signing_key, key, names, now)
        # The key first: a certificate without its key would break the next start.
        write_atomically(issued.key, _key_pem(key))
        write_atomically(issued.certificate, _pem(leaf) + _pem(authority))
    return issued


def fingerprint(pem: bytes) -> str:
    """The authority's fingerprint, for the join command."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def _authority(
    directory: Path, now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate, key = directory / "ca.pem", directory / "ca-key.pem"
    if not certificate.exists():
        made = ec.generate_private_key(ec.SECP256R1())
        write_atomically(key, _key_pem(made))
        write_atomically(certificate, _pem(_self_signed(made, now)))
    return _read(certificate, key)


def _read(certificate: Path, key: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        signing_key = load_pem_private_key(key.read_bytes(), None)
        authority = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise BadSettings(
            f"The private authority in {certificate.parent} cannot be read: {error}.",
            "Restore its files from a backup, or remove the directory: the server makes a new"
            " authority, and every client must trust its new fingerprint.",
        ) from error
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey), "all keys are made here"
    return authority, signing_key


def _self_signed(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _common_name("Potluck private authority")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    return (
        _draft(name, name, key.public_key(), now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    authority: x509.Certificate,
    signing_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
) -> x509.Certificate:
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _draft(_common_name("Potluck"), authority.subject, key.public_key(), now, _LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(server, critical=False)
        .add_extension(signer, critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .sign(signing_key, hashes.SHA256())
    )


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _is_good(
    issued: Issued, authority: x509.Certificate, names: Sequence[str], now: datetime
) -> bool:
    try:
        leaf = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
        key = load_pem_private_key(issued.key.read_bytes(), None)
        leaf.verify_directly_issued_by(authority)
        named = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound, InvalidSignature):
        return False
    return (
        set(named) == set(_alternatives(names))
        and leaf.not_valid_after_utc - now > _RENEW_BEFORE
        and leaf.public_key() == key.public_key()
    )


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in sorted(set(names))]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(**on: bool) -> x509.KeyUsage:
    kinds = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{kind: on.get(kind, False) for kind in kinds})


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
