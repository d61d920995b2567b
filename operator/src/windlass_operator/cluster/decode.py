"""Decodes what the API server sends within bounds of size and nesting, object by object.

An object is its own failure: one that is too large or too deep becomes a stub with its metadata, its status and a
sentence under UNREAD; everything beside it is read as ever. Pure; `streams.py`, `client.py` and `store.py` call it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import msgspec

Manifest = dict[str, Any]
KIB = 1024
DEPTH_MAX = 64  # a pod's deepest field lies 15 levels deep; its managedFields twice as deep
RAW_BYTES_MAX = 512 * KIB  # with managedFields and kubectl's last-applied annotation, each about as large as the spec
STATUS_BYTES_MAX = 64 * KIB  # of a stub; ours is under 16 KiB
UNREAD = "windlass.dev/unread"  # no user can write it: the API server drops unknown fields at the top of an object
TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
STEPS = [0] * 256
for _opening, _closing in (b"[]", b"{}"):
    STEPS[_opening], STEPS[_closing] = 1, -1
KEPT_META = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "labels", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp"),
)
# Without the size itself: that of the status counts, too, and its words must not change with it.
TOO_LARGE = f"the resource is larger than {RAW_BYTES_MAX // KIB} KiB"
TOO_DEEP = f"the resource is nested more than {DEPTH_MAX} levels deep"


class Page(msgspec.Struct):
    """One page of a list; the objects are decoded one by one, so that a long list needs little memory."""

    metadata: dict[str, Any]
    rows: list[msgspec.Raw] | None = msgspec.field(name="items", default=None)

    @property
    def items(self) -> list[msgspec.Raw]:
        """The objects; the API server writes an empty list of metadata as null."""
        return self.rows or []


class Event(msgspec.Struct):
    """One line of a watch; the object is decoded by who wants it."""

    type: str
    object: msgspec.Raw


class Identity(msgspec.Struct):
    """What an object's metadata says of who it is."""

    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API server's spelling

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.namespace, self.name)


class Named(msgspec.Struct):
    """An object of which only its name is read; msgspec passes over the rest."""

    metadata: Identity


class Skeleton(msgspec.Struct):
    """What is read of an object that is too large to be read whole; msgspec passes over the rest."""

    metadata: dict[str, Any]
    apiVersion: str = ""  # noqa: N815 - the API server's spelling
    kind: str = ""
    status: msgspec.Raw = msgspec.Raw(b"null")


def page(body: bytes) -> Page:
    """The page of a list; what is nested too deeply is cut where `manifest` still sees it."""
    try:
        return msgspec.json.decode(body, type=Page)
    except RecursionError:  # the objects of a page lie two levels deep
        return msgspec.json.decode(shallow(body, DEPTH_MAX + 3), type=Page)


def event(line: bytes) -> Event:
    """The line of a watch, as `page`."""
    try:
        return msgspec.json.decode(line, type=Event)
    except RecursionError:
        return msgspec.json.decode(shallow(line, DEPTH_MAX + 2), type=Event)


def identity(raw: bytes) -> Identity:
    """Who the object is, whatever else it says."""
    try:
        return msgspec.json.decode(raw, type=Named).metadata
    except RecursionError:
        return msgspec.json.decode(shallow(raw, DEPTH_MAX), type=Named).metadata


def manifest(raw: bytes) -> Manifest:
    """The object, or its stub when it is too large or too deep."""
    if len(raw) > RAW_BYTES_MAX:
        return _skeleton(raw)
    try:
        if depth(raw) <= DEPTH_MAX:
            return msgspec.json.decode(raw, type=Manifest)
    except RecursionError:
        pass
    return stub(msgspec.json.decode(shallow(raw, DEPTH_MAX), type=Manifest), TOO_DEEP)


def stub(item: Mapping[str, Any], why: str) -> Manifest:
    """The object without what it says: who it is, whose, its status, and why it is not read."""
    meta = item["metadata"]
    status = item.get("status")
    small = status is not None and len(msgspec.json.encode(status)) <= STATUS_BYTES_MAX
    return {
        **{key: item[key] for key in ("apiVersion", "kind") if item.get(key)},
        "metadata": {key: meta[key] for key in KEPT_META if key in meta},
        **({"status": status} if small else {}),
        UNREAD: why,
    }


def depth(raw: bytes) -> int:
    """How many levels deep the JSON is nested, at least where that is more than DEPTH_MAX."""
    opened = raw.count(b"{") + raw.count(b"[")
    if opened <= DEPTH_MAX:
        return opened
    brackets = STRINGS.sub(b"", raw).translate(None, NOT_BRACKETS)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0)


def shallow(raw: bytes, most: int) -> bytes:
    """The JSON with null in the place of whatever is nested deeper; without recursion, whatever the depth."""
    kept: list[bytes] = []
    level, begin = 0, 0
    for token in TOKENS.finditer(raw):
        step = STEPS[raw[token.start()]]
        level += step
        if step == 1 and level == most + 1:
            kept.append(raw[begin : token.start()])
        elif step == -1 and level == most:
            kept.append(b"null")
            begin = token.end()
    return b"".join((*kept, raw[begin:] if level <= most else b""))


def _skeleton(raw: bytes) -> Manifest:
    try:
        found = msgspec.json.decode(raw, type=Skeleton)
    except RecursionError:
        found = msgspec.json.decode(shallow(raw, DEPTH_MAX), type=Skeleton)
    status = bytes(found.status)
    whole = {"apiVersion": found.apiVersion, "kind": found.kind, "metadata": found.metadata}
    kept = msgspec.json.decode(shallow(status, DEPTH_MAX)) if len(status) <= STATUS_BYTES_MAX else None
    return stub({**whole, "status": kept}, TOO_LARGE)
