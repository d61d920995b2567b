"""The way to the API server with a user's token: its address and its authority, and never a credential found here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lightkube.config.models import User
from windlass_base.kube.access import Access, find_access, token_access

from windlass_console.settings import Settings

MakeAccess = Callable[[str, str], Access]
"""Of a token and the namespace that is meant where none is named."""


def access_by(settings: Settings) -> MakeAccess:
    """How each user reaches the API server; AccessError when its address is not known."""
    if settings.api_server:
        server, ca_file = settings.api_server, settings.ca_file or None
        return lambda token, namespace: token_access(server, token, ca_file=ca_file, namespace=namespace)
    found = find_access()

    def access(token: str, namespace: str) -> Access:
        return replace(found, config=found.config._replace(user=User(token=token)), namespace=namespace)

    return access
