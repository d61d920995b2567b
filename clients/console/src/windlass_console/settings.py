"""The settings of the process. Pure: `cli` reads the command line and the environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PREFIX = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
SESSION_HOURS = 12
COOKIE = "windlass_session"


class SettingsError(ValueError):
    """A setting is wrong; the text says which and what it may be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How one console serves."""

    prefix: str = ""
    """The path below which an ingress shows the console, without a slash at its end; empty: the host's root."""
    api_server: str = ""
    """The API server's URL; empty: that of the kubeconfig, whose credential is left out."""
    ca_file: str = ""
    namespaces: tuple[str, ...] = ()
    """Offered to users who may not list namespaces."""
    origins: tuple[str, ...] = ()
    """Origins of the pages beside the request's own host, as https://console.example.com."""
    session_key: bytes = field(default=b"", repr=False)
    """Encrypts the cookies; the same for all replicas. Empty: a random one, so that a restart ends all sessions."""
    session_hours: int = SESSION_HOURS
    license_addresses: tuple[str, ...] = ()
    """Of the license servers in the operator's configuration; empty: not known."""
    secure_cookie: bool = True
    """Browsers send the cookie over HTTPS alone, and over plain HTTP to this machine itself."""

    def __post_init__(self) -> None:
        if not PREFIX.fullmatch(self.prefix):
            raise SettingsError(f'--prefix "{self.prefix}" is no path; write it as /console')
        if self.session_key and len(self.session_key) < 32:
            raise SettingsError("the session key has fewer than 32 bytes; make one with openssl rand -base64 48")
        if not 1 <= self.session_hours <= 168:
            raise SettingsError(f"--session-hours {self.session_hours} is not between 1 and 168")
        for origin in self.origins:
            if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+", origin):
                raise SettingsError(f'--origin "{origin}" is no origin; write it as https://console.example.com')

        for address in self.license_addresses:
            if not re.match(r"https?://[^/]", address):
                raise SettingsError(
                    f'--license-address "{address}" is no URL; write it as http://NAME.NAMESPACE.svc:10080'
                )

    @property
    def cookie_name(self) -> str:
        """Browsers take the prefixes over HTTPS alone; no other host of the domain sets a cookie of __Host-."""
        if not self.secure_cookie:
            return COOKIE
        return f"__Secure-{COOKIE}" if self.prefix else f"__Host-{COOKIE}"

    @property
    def cookie_path(self) -> str:
        """Where the browser sends the cookie."""
        return self.prefix or "/"
