"""Whether an answer comes from a license server that the issuer certified, and to this request. Pure.

With the issuer's public keys (`WINDLASS_LICENSE_PUBLIC_KEYS`) the client believes signed answers only: the issuer
signed the server's key, the server signed status and body, and the body repeats the nonce, the GPUs and the pod. The
formats are those of the license server's `answer_key`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PUBLIC_KEYS = "WINDLASS_LICENSE_PUBLIC_KEYS"
SIGNATURE_HEADER, CERTIFICATE_HEADER = "windlass-answer-signature", "windlass-answer-certificate"
CERTIFICATE_MAGIC = b"windlass answer key, format 1\n"
ANSWER_MAGIC = b"windlass lease answer, format 1\n"
CLOCKS_APART = timedelta(minutes=10)
"""How far the clocks of pod and license server may differ; the nonce alone makes an answer fresh."""
_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


class UntrustedAnswerError(Exception):
    """The answer proves nothing; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, as the answer has to repeat it."""

    nonce: str
    gpus: tuple[str, ...]
    uid: str


@dataclass(frozen=True, slots=True)
class Issuers:
    """The public keys of whoever issues licenses, by their ids; empty: every answer is believed."""

    keys: Mapping[str, Ed25519PublicKey]

    def check(self, question: Question, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """UntrustedAnswerError when this answer is not a certified server's to this question."""
        certificate, signature = headers.get(CERTIFICATE_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
        if not certificate or not signature:
            raise UntrustedAnswerError(
                "the answer carries no signature; have a license issued that certifies the server's answer key "
                f"(windlass-license issue --answer-key), or take {PUBLIC_KEYS} away"
            )
        _verify(self._certified(certificate), signature, ANSWER_MAGIC + f"{status}\n".encode() + body)
        _check_statement(question, status, _object(body))

    def _certified(self, header: str) -> Ed25519PublicKey:
        """The server's answer key, which one of the issuers signed."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        issuer, _, rest = header.partition(".")
        text, _, signature = rest.partition(".")
        key = self.keys.get(issuer)
        if key is None:
            known = ", ".join(sorted(self.keys))
            raise UntrustedAnswerError(f"the answer key was certified by {issuer[:16]!r}, and this pod trusts {known}")
        certificate = _decoded(text)
        _verify(key, signature, CERTIFICATE_MAGIC + certificate)
        facts = _object(certificate)
        # The end itself is not moved: that of a perpetual license is the calendar's last day.
        if datetime.now(UTC) - _moment(facts.get("expires")) >= CLOCKS_APART + _GRACE:
            raise UntrustedAnswerError("the license that certifies the answer key ended long ago; upload a new license")
        try:
            return Ed25519PublicKey.from_public_bytes(_decoded(str(facts.get("key"))))
        except ValueError as error:
            raise UntrustedAnswerError(
                "the certified answer key is no Ed25519 key; have the license issued again"
            ) from error


_GRACE = timedelta(days=366)
"""Serving pods may go on after a license's end, so the certificate of its key is believed for another year."""


def issuers(text: str) -> Issuers:
    """The keys of PEM text; UsageError for a text without a usable one, no keys for an empty text."""
    if not text.strip():
        return Issuers({})
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found: dict[str, Ed25519PublicKey] = {}
    for block in _PEM.findall(text):
        try:
            key = load_pem_public_key(block.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise UsageError(
                f"variable {PUBLIC_KEYS} holds a key that cannot be read: {error}; copy the PEM whole"
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise UsageError(f"variable {PUBLIC_KEYS} holds a key that is not Ed25519; give the issuer's public.pem")
        found[hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]] = key
    if not found:
        raise UsageError(f'variable {PUBLIC_KEYS} holds no PEM text "-----BEGIN PUBLIC KEY-----…"')
    return Issuers(found)


def _check_statement(question: Question, status: int, said: Mapping[str, Any]) -> None:
    if said.get("nonce") != question.nonce:
        raise UntrustedAnswerError("the answer is to another request: somebody showed an old one")
    pod = said.get("pod")
    if question.uid and (not isinstance(pod, dict) or pod.get("uid") != question.uid):
        raise UntrustedAnswerError("the answer is for another pod")
    if status == 200 and _names(said.get("gpus")) != sorted(set(question.gpus)):
        raise UntrustedAnswerError("the answer is about other GPUs")
    at, now = _moment(said.get("at")), datetime.now(UTC)
    if abs(at - now) > CLOCKS_APART:
        here = now.isoformat(timespec="seconds")
        raise UntrustedAnswerError(f"the answer is of {at.isoformat()}, and it is {here} here; set the clocks")


def _verify(key: Ed25519PublicKey, signature: str, signed: bytes) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(_decoded(signature), signed)
    except InvalidSignature as error:
        raise UntrustedAnswerError(
            "the answer's signature does not fit: this is not the certified license server"
        ) from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UntrustedAnswerError("the answer's signature cannot be read") from error


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        said = json_of(text)
    except UnusableJsonError as error:
        raise UntrustedAnswerError("the signed text is no JSON") from error
    return said if isinstance(said, dict) else {}


def _names(said: object) -> list[str]:
    return sorted(map(str, said)) if isinstance(said, Sequence) and not isinstance(said, str) else []


def _moment(said: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(said))
    except ValueError as error:
        raise UntrustedAnswerError("the answer has no time") from error
    if moment.tzinfo is None:
        raise UntrustedAnswerError("the answer's time has no zone")
    return moment
