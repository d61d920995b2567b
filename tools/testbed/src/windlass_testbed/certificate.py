"""A certificate that signs itself, for servers of tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ADDRESS = "127.0.0.1"


def certify(folder: Path, *names: str) -> None:
    """Write tls.crt for 127.0.0.1 and the names, which SSL_CERT_FILE may name, and tls.key: the names of a Secret."""
    key = rsa.generate_private_key(65537, 2048)  # every cipher that a test offers has a key of this kind
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, ADDRESS)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(ADDRESS)), *map(x509.DNSName, names)]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(key.private_bytes(*plain))
