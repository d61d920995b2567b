"""The cookie of a session: the user's token, encrypted, with the instant at which it ends.

AES-GCM with a key of the process or of a Secret: who has the cookie alone learns nothing and can change nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from windlass_console.errors import UnusableError

PURPOSE = b"windlass console session 1"
NONCE_BYTES = 12
COOKIE_MAX = 3900  # characters of the value; browsers drop a cookie of more than 4,096 with its name and attributes
END = struct.Struct(">Q")


class Seal:
    """Seals and opens cookies."""

    def __init__(self, key: bytes = b"") -> None:
        """Without a key a random one: the cookies end with the process."""
        self._cipher = AESGCM(hashlib.sha256(PURPOSE + (key or secrets.token_bytes(32))).digest())

    def close(self, token: str, until: int) -> str:
        """The cookie's value; UnusableError for a token that no cookie can hold."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, END.pack(until) + token.encode(), PURPOSE)
        value = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
        if len(value) > COOKIE_MAX:
            raise UnusableError(
                f"the token has {len(token)} characters, more than a cookie holds; "
                "have the ingress sign in and send it as Authorization"
            )
        return value

    def open(self, value: str, now: float) -> tuple[str, int] | None:
        """Token and end of a cookie; None when it was not sealed here, or has ended."""
        if len(value) > COOKIE_MAX:
            return None
        try:
            sealed = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            text = self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], PURPOSE)
        except (binascii.Error, ValueError, InvalidTag):
            return None
        (until,) = END.unpack_from(text)
        return (text[END.size :].decode(), until) if until > now else None
