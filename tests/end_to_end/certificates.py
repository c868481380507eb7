"""Self-signed certificates that end when a test wants them to."""

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def write_certificate(
    certificate: Path, key: Path, ends_at: datetime, name_of_site: str | None = None
) -> None:
    private_key = ec.generate_private_key(ec.SECP256R1())
    common = name_of_site or "127.0.0.1"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    local = x509.IPAddress(ip_address("127.0.0.1"))
    names = x509.SubjectAlternativeName([x509.DNSName(common) if name_of_site else local])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(ends_at)
        .add_extension(names, critical=False)
        .sign(private_key, hashes.SHA256())
    )
    secret = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(secret)
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
