"""What a Kubernetes token says of itself, without asking anybody. Pure: it proves nothing, the API server decides."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from windlass_base.untrusted_json import parsed

from windlass_console.errors import UnusableError

TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750's b68token
TOKEN_MAX = 16 << 10  # characters; a header of more is refused by most proxies
ACCOUNT = "kubernetes.io"
SUBJECT = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):.+")


def usable(text: str) -> str:
    """The token without blanks around it; UnusableError for what no API server accepts."""
    token = text.strip()
    if len(token) > TOKEN_MAX or not TOKEN.fullmatch(token):
        raise UnusableError(
            "what was pasted is no token; paste the output of kubectl create token NAME, one line of letters and digits"
        )
    return token


def expiry_of(token: str) -> int | None:
    """The claim `exp` in Unix time; None where the token has none that can be read."""
    value = _claims(token).get("exp")
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**40
    return int(value) if right and value is not None else None


def namespace_of(token: str) -> str:
    """A service account's own namespace; empty for any other token."""
    claims = _claims(token)
    own = claims.get(ACCOUNT)
    if isinstance(own, Mapping) and isinstance(own.get("namespace"), str):
        return str(own["namespace"])
    found = SUBJECT.fullmatch(str(claims.get("sub") or ""))
    return found[1] if found else ""


def _claims(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return {}
    claims = parsed(text)
    return claims if isinstance(claims, dict) else {}
