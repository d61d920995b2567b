"""Which addresses the server may fetch images, audio and video from. Pure.

A server that fetches whatever a request names can be sent to the cluster's inner addresses. So media comes inside the
request (`data:`), or from hosts that the operator of the service listed; everything else is refused before the engine
sees it. The engine's own check (`engine_media`) is the second line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.front.refusal import Refusal

HOLDERS = ("url", "uri", "urls", "uris")
"""Whatever stands under a name that is one of these, or ends in `_` and one of these, counts as fetched, anywhere."""
LISTS = frozenset({"images", "audio", "videos"})
"""A list of addresses, in the bodies of the embedding and decision routes."""
NOT_MEDIA = frozenset({"tools", "functions", "response_format", "structured_outputs", "metadata"})
"""Schemas and free-form values of a body, where such a name is no address."""
NOT_FETCHED = frozenset({"annotations", "action", "arguments", "documents", "chat_template_kwargs"})
"""What a body quotes, at any depth: citations, calls of tools and texts; the engine hands them to the model as text."""
ADDRESS = re.compile(r"https?://([a-z0-9._-]+)(:[0-9]{1,5})?([/?#][\x21-\x5b\x5d-\x7e]*)?", re.IGNORECASE)
"""Narrow on purpose: no user info, brackets, backslashes, blanks or other letters that two parsers read differently."""
NUMERIC_HOST = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)
DATA = "data:"
LONGEST_HEAD = 256
NOWHERE = "no-host-is-allowed.invalid"
"""The engine reads an empty list as `every host`; this name never resolves."""


@dataclass(frozen=True, slots=True)
class EngineMedia:
    """The engine's own doors for the same rule."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]


def engine_media(domains: Collection[str]) -> EngineMedia:
    """Flags and variables for the engine; it knows no `*.`, so with one of those only the guard checks hosts."""
    exact = tuple(domains) or (NOWHERE,)
    wild = any(domain.startswith("*.") for domain in exact)
    # A redirect would lead from a listed host to any other.
    return EngineMedia(() if wild else ("--allowed-media-domains", *exact), {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"})


def check(document: Mapping[str, Any], domains: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Every address of a request's media with its field; the first that may not be fetched is refused."""
    found = tuple(_media(document))
    for name, address in found:
        if why := objection(address, domains):
            raise Refusal(400, f"{name} {why}", param=name)
    return found


def fetches(document: Mapping[str, Any]) -> bool:
    """Whether the engine goes to another host for this request."""
    return any(address[:5].lower() != DATA for _, address in _media(document))


def addresses(value: object) -> Iterator[tuple[str, str]]:
    """Every address that the engine may fetch, with the field that holds it."""
    left = [value]  # no recursion: a request decides how deep it is nested
    while left:
        value = left.pop()
        if isinstance(value, list):
            left.extend(value)
        elif isinstance(value, dict):
            quoted = {"input"} if value.get("type") == "tool_use" else set()
            for key, inner in value.items():
                if key not in NOT_FETCHED and key not in quoted:
                    left.append(inner)
                    yield from _held(key, inner)


def objection(address: str, domains: Collection[str]) -> str:
    """Why an address may not be fetched; empty when it may."""
    if address[:5].lower() == DATA:
        head = address[:LONGEST_HEAD].partition(",")[0].lower()
        return "" if head.endswith(";base64") else "is a data: URL without base64; send data:image/png;base64,…"
    found = ADDRESS.fullmatch(address)
    if not found:
        return "is neither a data: URL nor a plain http(s) URL with a host name; send data:image/png;base64,…"
    host = found[1].lower()
    if NUMERIC_HOST.fullmatch(host):
        return f"names the IP address {host}; use a host name that this server allows, or send a data: URL"
    if any(_matches(host, domain.lower()) for domain in domains):
        return ""
    allowed = ", ".join(domains) or "none"
    return f"names the host {host}, from which this server does not fetch (allowed: {allowed}); send a data: URL"


def _media(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return addresses({key: value for key, value in document.items() if key not in NOT_MEDIA})


def _held(key: str, inner: object) -> Iterator[tuple[str, str]]:
    if key.rpartition("_")[2] in HOLDERS:
        address = inner.get("url") if isinstance(inner, dict) else inner
        if isinstance(address, str):
            yield key, address
        elif isinstance(address, list):
            yield from ((key, one) for one in address if isinstance(one, str))
    elif key in LISTS and isinstance(inner, list):
        yield from ((key, address) for address in inner if isinstance(address, str))


def _matches(host: str, domain: str) -> bool:
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain
