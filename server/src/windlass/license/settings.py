"""What the environment says about licensing, as one value; the same for every program that takes GPUs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from windlass_sizing.settings.values import SWITCH_WORDS

from windlass.errors import UsageError
from windlass.license.answers import PUBLIC_KEYS

REQUIRED, WAIT, TIMEOUT = "WINDLASS_LICENSE_REQUIRED", "WINDLASS_LICENSE_WAIT", "WINDLASS_LICENSE_TIMEOUT"
CA = "WINDLASS_LS_CA"
TOKEN_FILE = "WINDLASS_LICENSE_TOKEN_FILE"  # noqa: S105  the name of the variable
ADDRESS_VARIABLES = ("WINDLASS_LS_ADDR", "TACO_LS_ADDR")
DEFAULT_ADDRESSES = (
    "http://windlass-license-server.kube-system.svc.cluster.local:10080",
    "http://windlass-license-server:10080",
)
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class LicenseSettings:
    """Whether, whom and how long to ask."""

    required: bool = True
    addresses: tuple[str, ...] = DEFAULT_ADDRESSES
    """Base URLs of license servers, tried in this order."""
    timeout_s: float = TIMEOUT_S
    """How long one question may take, all addresses together."""
    wait_s: float | None = None
    """How long a refusal is waited out; None is for ever, 0 not at all."""
    ca: str = ""
    """The certificate authority of https addresses, as PEM text or a file's path; empty means the usual ones."""
    public_keys: str = ""
    """The issuer's public keys as PEM text; empty: answers are believed without a signature."""
    token_file: str = ""
    """The file with this pod's token for the license server; empty: none is shown."""


def read(environment: Mapping[str, str]) -> LicenseSettings:
    """The settings; UsageError for a value that cannot be meant."""
    return LicenseSettings(
        required=required(environment),
        addresses=addresses(environment),
        timeout_s=_seconds(environment, TIMEOUT, above_0=True) or TIMEOUT_S,
        wait_s=_seconds(environment, WAIT),
        ca=environment.get(CA, "").strip(),
        public_keys=environment.get(PUBLIC_KEYS, "").strip(),
        token_file=environment.get(TOKEN_FILE, "").strip(),
    )


def required(environment: Mapping[str, str]) -> bool:
    """Whether the GPUs must be licensed before the engine starts."""
    text = environment.get(REQUIRED, "").lower()
    if text and text not in SWITCH_WORDS:
        raise UsageError(f'variable {REQUIRED} is "{text}"; write true or false')
    return SWITCH_WORDS.get(text, True)


def addresses(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where to ask, in order: the first variable that is set, else the default names of the Service."""
    for variable in ADDRESS_VARIABLES:
        said = tuple(part for word in environment.get(variable, "").split(",") if (part := word.strip()))
        if said:
            return tuple(_url(variable, address) for address in said)
    return DEFAULT_ADDRESSES


def _url(variable: str, address: str) -> str:
    url = (address if "://" in address else f"http://{address}").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        usable = False
    if not usable or any(letter.isspace() for letter in url) or not _is_taken(url):
        shown = address.encode("utf-8", "backslashreplace").decode()  # bytes of no encoding cannot be printed
        raise UsageError(f'variable {variable} has "{shown}", which is no address; write it as host:10080 or as a URL')
    return url


def _is_taken(url: str) -> bool:
    """Whether the HTTP library takes it, which reads international host names more strictly than Python does."""
    import httpx

    try:
        return bool(httpx.URL(url).host)
    except (httpx.InvalidURL, ValueError):  # a name that only says it is international is a ValueError
        return False


def _seconds(environment: Mapping[str, str], name: str, *, above_0: bool = False) -> float | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0 or (above_0 and seconds == 0):
        least = "above 0" if above_0 else "or 0"
        raise UsageError(f'variable {name} is "{text}"; write seconds {least}, or leave it unset')
    return seconds
