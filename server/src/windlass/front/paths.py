"""Which paths a server looks up at all. Pure; the first check of a request, before keys, routes and bodies.

A router and a check in front of it must read a path alike. Both read the decoded path; so every character that one of
them may skip, cut at or fold is refused here, and what is left is compared as a whole (`re.fullmatch`, never `match`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from windlass.front.refusal import Refusal

LONGEST_PATH = 1024
"""Characters. The longest path of the engine is /v1/responses/{id}/cancel; its ids have 40."""
ENCODED = re.compile(rb"%(?:2[fF]|5[cC]|25)")
"""A slash, backslash or percent sign in disguise: a proxy in front may read another path than the server."""
DOTS = frozenset({".", ".."})


def tidy(path: str) -> str:
    """The path with runs of slashes made one and without a last slash: both are common slips in a base URL."""
    return re.sub(r"/{2,}", "/", path).rstrip("/") or "/"


def check(path: str, raw: bytes = b"") -> None:
    """Refuse a path, decoded and as it was sent, that two programs may read differently."""
    if len(path) > LONGEST_PATH:
        raise Refusal(400, f"the path has more than {LONGEST_PATH} characters; send a shorter one")
    if not path.startswith("/"):
        raise Refusal(400, "the path does not begin with a slash; send an absolute path")
    if not _is_plain(path) or not _is_plain(raw.decode("latin-1")):
        raise Refusal(400, "the path holds a control character, a blank or a backslash; send it without")
    if ENCODED.search(raw):
        raise Refusal(400, "the path holds an encoded slash, backslash or percent sign; send it without")
    if DOTS.intersection(path.split("/")):
        raise Refusal(400, "the path holds a segment of dots; send the path that is meant")


def check_host(said: bytes, allowed: Collection[str]) -> None:
    """Refuse a Host header that names none of the allowed hosts; without any allowed host all are."""
    if not allowed:
        return
    host = said.decode("latin-1").lower()
    name = re.sub(r":[0-9]{1,5}\Z", "", host)
    if not any(name.endswith(one[1:]) if one.startswith("*.") else name == one for one in map(str.lower, allowed)):
        raise Refusal(421, "the header Host names no host of this server; use one of its own names")


def _is_plain(text: str) -> bool:
    return text.isprintable() and not {" ", "\\", "\N{REPLACEMENT CHARACTER}"}.intersection(text)
