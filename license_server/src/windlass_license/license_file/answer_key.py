"""The key by which the license server signs its answers, and its certificate in the license. Pure but for one file.

The server makes a pair of its own, the issuer certifies the public half in the license, and pods that have the issuer's
public key believe no other server. Formats (ADR 32):

    certificate     "windlass answer key, format 1", newline, one line of JSON: the key, the license it is for, its end
    answer          "windlass lease answer, format 1", newline, HTTP status, newline, the bytes of the body
"""

import base64
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from windlass_license.errors import KeyFileError, SettingsError
from windlass_license.license_file.keys import generate, parse_private

FILE_NAME = "answer-key.pem"
SIGNATURE_HEADER, CERTIFICATE_HEADER = "windlass-answer-signature", "windlass-answer-certificate"
_CERTIFICATE_MAGIC = b"windlass answer key, format 1\n"
_ANSWER_MAGIC = b"windlass lease answer, format 1\n"


@dataclass(frozen=True, slots=True)
class Certified:
    """What a certificate says of the key."""

    key: str
    appid: str
    customer: str
    serial: int
    expires: datetime

    def text(self) -> bytes:
        """The line of JSON."""
        facts = {
            "appid": self.appid,
            "customer": self.customer,
            "expires": self.expires.isoformat(),
            "key": self.key,
            "serial": self.serial,
        }
        return json.dumps(facts, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def encode(key: Ed25519PublicKey) -> str:
    """The raw public key as base64."""
    return base64.b64encode(key.public_bytes_raw()).decode()


def certify(certified: Certified, issuer: Ed25519PrivateKey) -> str:
    """The issuer's signature, as base64."""
    return base64.b64encode(issuer.sign(_CERTIFICATE_MAGIC + certified.text())).decode()


def is_certified(certified: Certified, signature: str, issuer: Ed25519PublicKey) -> bool:
    """Whether the issuer signed this certificate."""
    try:
        issuer.verify(base64.b64decode(signature, validate=True), _CERTIFICATE_MAGIC + certified.text())
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs answers under one certificate."""

    key: Ed25519PrivateKey
    certificate: str
    """The header's value: issuer's key id, certificate, signature, separated by dots."""

    def headers(self, status: int, body: bytes) -> dict[str, str]:
        """What goes with an answer."""
        signature = base64.b64encode(self.key.sign(_ANSWER_MAGIC + f"{status}\n".encode() + body)).decode()
        return {SIGNATURE_HEADER: signature, CERTIFICATE_HEADER: self.certificate}


def certificate_header(certified: Certified, signature: str, issuer_id: str) -> str:
    """The certificate as one word."""
    return f"{issuer_id}.{base64.b64encode(certified.text()).decode()}.{signature}"


def load_or_make(data_dir: Path, given: Path | None) -> Ed25519PrivateKey:
    """The key of a given file, else of the data directory, where it is made once."""
    path = given or data_dir / FILE_NAME
    try:
        if given is None and not path.exists():
            data_dir.mkdir(parents=True, exist_ok=True)
            _make(path)
        return parse_private(path.read_text(encoding="ascii"), str(path))
    except (OSError, UnicodeDecodeError, KeyFileError) as error:
        raise SettingsError(
            f"the answer key {path} cannot be used: {error}; restore it, or remove it for a new one"
        ) from error


def _make(path: Path) -> None:
    """Whole or not at all: a start that is killed leaves no half key."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(generate()[0])
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another replica was faster; its key is the key
    finally:
        draft.unlink()
