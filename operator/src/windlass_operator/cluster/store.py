"""What the streams have brought, in memory: a reconcile reads from here and asks the API server for almost nothing.

Objects lie as MessagePack, without what nobody reads: a tenth of the memory of dicts, a seventh less than JSON. Each
reader gets a copy of its own. Pure: no I/O, no clock. The handlers fill it, `stored.py` reads it and adds the answers
to our own writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from sys import intern
from typing import Any, cast

import msgspec
from windlass_api.crd.v1alpha1 import KIND
from windlass_api.names import SERVICE_LABEL
from windlass_api.objects.claims import EVERYWHERE

from windlass_operator.cluster.decode import stub
from windlass_operator.records.base import R, parse

Manifest = dict[str, Any]
Place = tuple[str, str]  # namespace, name
DOWNLOAD_LABEL = "serving.windlass.dev/download"  # of a Job that fills a source for several services, and of its pods
INDEXED = (SERVICE_LABEL, DOWNLOAD_LABEL)
KIB = 1024
SERVICE_BYTES_MAX = 128 * KIB  # of an LLMService without managedFields; ordinary ones have 8 KiB
OBJECT_BYTES_MAX = 512 * KIB  # of any other object: a Deployment repeats its service's pod template
# What the objects of one namespace may take together above FREE_BYTES each, so that one namespace never takes the
# operator's memory; ordinary objects are smaller than that and count nothing.
FREE_BYTES, NAMESPACE_BYTES_MAX = 16 * KIB, 32 * KIB * KIB
# The API server writes an untyped number below 1e21 that is no int64 in digits.
TOO_WIDE = "a number of the resource has more than 64 bits"
UNREAD_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)


@dataclass(frozen=True, slots=True)
class Row:
    """One object: its version, what it is found by, and itself."""

    version: int
    marks: tuple[str, ...]  # values of the INDEXED labels; empty where there is none
    owners: tuple[str, ...]  # names of the LLMServices that own it
    body: bytes

    def read(self) -> Manifest:
        """A copy of the object."""
        return cast(Manifest, msgspec.msgpack.decode(self.body))

    def record(self, shape: type[R]) -> R:
        """The object as a record: its other fields are passed over."""
        try:
            return msgspec.msgpack.decode(self.body, type=shape)
        except msgspec.ValidationError:
            return parse(shape, self.read())


def row_of(item: Mapping[str, Any]) -> Row:
    """The object as it is kept."""
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    labels = meta.get("labels") or {}
    if any(name in (meta.get("annotations") or {}) for name in UNREAD_ANNOTATIONS):
        kept = {key: value for key, value in meta["annotations"].items() if key not in UNREAD_ANNOTATIONS}
        meta["annotations"] = kept
    return Row(
        version=version_of(meta.get("resourceVersion")),
        marks=tuple(intern(labels.get(label) or "") for label in INDEXED),
        owners=tuple(intern(one["name"]) for one in meta.get("ownerReferences") or () if one.get("kind") == KIND),
        body=_body({**item, "metadata": meta}),
    )


def _body(item: Manifest) -> bytes:
    """The object's bytes; of one that is too large, or has a number that MessagePack has not, those of its stub."""
    try:
        body = msgspec.msgpack.encode(item)
    except OverflowError:
        return msgspec.msgpack.encode(stub(item, TOO_WIDE))
    most = SERVICE_BYTES_MAX if item.get("kind") == KIND else OBJECT_BYTES_MAX
    if len(body) <= most:
        return body
    return msgspec.msgpack.encode(stub(item, f"the resource is larger than {most // KIB} KiB without managedFields"))


class Shares:
    """What the large objects of each namespace take of the operator's memory."""

    def __init__(self, most: int = NAMESPACE_BYTES_MAX) -> None:
        self._most = most
        self._taken: dict[str, int] = {}

    def admit(self, namespace: str, row: Row, old: Row | None) -> Row:
        """The row, or that of its stub where its namespace has taken its share; `old` goes with it."""
        before = self._taken.get(namespace, 0) - _excess(old)
        if _excess(row) and before + _excess(row) > self._most:
            why = f"the resources of namespace {namespace} take more than {self._most // KIB // KIB} MiB"
            row = replace(row, body=msgspec.msgpack.encode(stub(row.read(), why)))
        self._set(namespace, before + _excess(row))
        return row

    def release(self, namespace: str, row: Row) -> None:
        """The row is gone."""
        self._set(namespace, self._taken.get(namespace, 0) - _excess(row))

    def _set(self, namespace: str, taken: int) -> None:
        if taken:
            self._taken[namespace] = taken
        else:
            self._taken.pop(namespace, None)


def _excess(row: Row | None) -> int:
    return max(0, len(row.body) - FREE_BYTES) if row else 0


def place_of(item: Mapping[str, Any]) -> Place:
    """Namespace, empty for an object of the whole cluster, and name."""
    meta = item["metadata"]
    return (intern(meta.get("namespace") or ""), str(meta["name"]))


def version_of(text: object) -> int:
    """A resourceVersion as a number, by which two versions of one kind compare; 0 for what is none."""
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


class Shelf:
    """The objects of one kind."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares = shares or Shares()
        self.rows: dict[Place, Row] = {}
        self.changes = 0  # how often the rows have changed, for those who keep what they made of them
        self._writing: Counter[Place] = Counter()  # our own writes under way
        self._buried: dict[Place, int] = {}  # the version at which an object went while we wrote it
        self._by_mark: dict[tuple[int, str, str], set[str]] = {}  # label's number, namespace, value → names

    def put(self, item: Mapping[str, Any]) -> Row | None:
        """What the stream says of an object; the row when it is news."""
        return self._put(place_of(item), row_of(item))

    @contextmanager
    def writing(self, place: Place) -> Iterator[None]:
        """A write of ours is under way: what the stream says of the object's end meanwhile outlives the answer."""
        self._writing[place] += 1
        try:
            yield
        finally:
            self._writing[place] -= 1
            if not self._writing[place]:
                del self._writing[place]
                self._buried.pop(place, None)

    def answer(self, item: Mapping[str, Any]) -> Row | None:
        """What a write of ours made of an object; nothing where the stream has told of its end since."""
        row, place = row_of(item), place_of(item)
        return None if row.version <= self._buried.get(place, -1) else self._put(place, row)

    def _put(self, place: Place, row: Row) -> Row | None:
        old = self.rows.get(place)
        if old is not None and old.version >= row.version:
            return None
        self._unmark(place, old)
        self.changes += 1
        row = self.rows[place] = self._shares.admit(place[0], row, old)
        for number, value in enumerate(row.marks):
            if value:
                self._by_mark.setdefault((number, place[0], value), set()).add(place[1])
        return row

    def drop(self, item: Mapping[str, Any]) -> Row | None:
        """The stream says that it is gone; nothing when our own write has made it anew meanwhile."""
        version, place = version_of(item["metadata"].get("resourceVersion")), place_of(item)
        self._bury(place, version)
        old = self.rows.get(place)
        if old is None or old.version > version:
            return None
        return self._remove(place)

    def keep(self, places: set[Place], version: int, scope: str = EVERYWHERE) -> list[tuple[Place, Row]]:
        """A list of a scope, of that version, is through: drop what it did not name; returns what was dropped."""
        for place in self._writing:
            if scope in (EVERYWHERE, place[0]) and place not in places:
                self._bury(place, version)
        known = [(place, row) for place, row in self.rows.items() if scope in (EVERYWHERE, place[0])]
        gone = [place for place, row in known if place not in places and row.version <= version]
        return [(place, self._remove(place)) for place in gone]

    def _bury(self, place: Place, version: int) -> None:
        if place in self._writing:
            self._buried[place] = max(version, self._buried.get(place, -1))

    def _remove(self, place: Place) -> Row:
        row = self.rows.pop(place)
        self._shares.release(place[0], row)
        self.changes += 1
        self._unmark(place, row)
        return row

    def _unmark(self, place: Place, row: Row | None) -> None:
        for number, value in enumerate(row.marks if row else ()):
            names = self._by_mark.get((number, place[0], value))
            if names is not None:
                names.discard(place[1])
                if not names:
                    del self._by_mark[number, place[0], value]

    def named(self, number: int, namespace: str, value: str) -> set[str]:
        """Names of those whose indexed label of that number has this value."""
        return self._by_mark.get((number, namespace, value), set())

    def get(self, place: Place) -> Manifest | None:
        """A copy of one object."""
        row = self.rows.get(place)
        return row.read() if row else None

    def find(self, namespace: str | None, labels: Mapping[str, str]) -> list[Manifest]:
        """Copies of those with all these labels, by name; None means all namespaces."""
        found = (self.rows[place].read() for place in sorted(self._candidates(namespace, labels)))
        return [item for item in found if labels.items() <= (item["metadata"].get("labels") or {}).items()]

    def records(self, shape: type[R], namespace: str, labels: Mapping[str, str]) -> list[R]:
        """Records of those with all these labels, by name."""
        found = (self.rows[place].record(shape) for place in sorted(self._candidates(namespace, labels)))
        return [one for one in found if labels.items() <= one.metadata.labels.items()]

    def _candidates(self, namespace: str | None, labels: Mapping[str, str]) -> Iterable[Place]:
        for number, label in enumerate(INDEXED):
            if namespace and label in labels:
                return {(namespace, name) for name in self.named(number, namespace, labels[label])}
        return [place for place in self.rows if namespace in (None, place[0])]


class Store:
    """A shelf for each watched kind, by the kind's name."""

    def __init__(self, kinds: Iterable[str]) -> None:
        shares = Shares()
        self.shelves = {kind: Shelf(shares) for kind in kinds}

    def service_names(self, kind: str, namespace: str, row: Row) -> set[str]:
        """The LLMServices that an object of this kind concerns."""
        service, download = row.marks
        names = {service, *row.owners} - {""}
        if download and kind == "Pod":  # the pod knows its Job's label only, the Job its owners
            jobs = self.shelves["Job"]
            number = INDEXED.index(DOWNLOAD_LABEL)
            for name in jobs.named(number, namespace, download):
                names.update(jobs.rows[namespace, name].owners)
        return names
