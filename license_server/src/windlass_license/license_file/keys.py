"""Ed25519 keys as PEM text, and the short id that a license file names its key by.

Several verification keys may be in force at once: that is how a signing key is rotated.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from windlass_license.errors import KeyFileError

PublicKeys = Mapping[str, Ed25519PublicKey]

_PUBLIC_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


def key_id(key: Ed25519PublicKey) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the raw public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def generate() -> tuple[str, str, str]:
    """A new key pair as PEM texts: (private, public, key id)."""
    private = Ed25519PrivateKey.generate()
    return private_pem(private), public_pem(private.public_key()), key_id(private.public_key())


def private_pem(key: Ed25519PrivateKey) -> str:
    """The signing key as unencrypted PKCS#8 PEM."""
    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, kind, serialization.NoEncryption()).decode()


def public_pem(key: Ed25519PublicKey) -> str:
    """The verification key as PEM."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def parse_private(pem: str, source: str) -> Ed25519PrivateKey:
    """The signing key in a PEM text."""
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{source} is not an unencrypted private key in PEM; make one with keygen") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{source} is not an Ed25519 key; make one with keygen")
    return key


def parse_public(pem: str, source: str) -> tuple[Ed25519PublicKey, ...]:
    """Every verification key of a PEM text, which may hold several one after the other."""
    if "PRIVATE KEY" in pem:
        raise KeyFileError(
            f"{source} holds a private key; give the public key, and keep the private one off the cluster"
        )
    blocks = _PUBLIC_PEM.findall(pem)
    if not blocks:
        raise KeyFileError(f'{source} holds no public key; expected PEM text, "-----BEGIN PUBLIC KEY-----…"')
    return tuple(_one_public(block, source) for block in blocks)


def by_id(keys: Iterable[Ed25519PublicKey]) -> PublicKeys:
    """The keys under their ids."""
    return {key_id(key): key for key in keys}


def _one_public(block: str, source: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(block.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{source} holds a public key that cannot be read; was it copied whole?") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{source} holds a public key that is not Ed25519; licenses are signed with Ed25519")
    return key
