"""Applies owned objects, and only when something differs: steady state is zero requests that write.

Every object with pods goes through `Applier`, so that none of them mounts a directory of the nodes that the
installation does not allow, whatever it was rendered from.

Two signs that an apply is due. The hash of our last intent, kept in an annotation, differs: we want something else.
Or a field of ours reads differently in the live object: someone edited it. What the API server itself rewrites (a
quantity's spelling) would look like such an edit for ever; `Applier` remembers what it made of our last apply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from windlass_api.crd.v1alpha1 import KIND

from windlass_operator.cluster.protocol import Cluster
from windlass_operator.errors import InvalidError, Retry, UserError
from windlass_operator.manifests.lists import by_key, key_fields
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.volume import allowed_node_paths, mounted_node_paths, within

APPLIED_ANNOTATION = "serving.windlass.dev/applied"
SEEN_S = 1.0  # until what another has made is read as well
# Fields of ours that the API server leaves out where they have this value.
LEFT_OUT = {"paused": False}


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with the hash of itself in an annotation."""
    digest = _digest(manifest)[:16]
    meta = manifest["metadata"]
    annotations = {**meta.get("annotations", {}), APPLIED_ANNOTATION: digest}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def project(live: object, wanted: object, above: str = "", field: str = "") -> object:
    """The part of `live` that `wanted` speaks of, in the shape of `wanted`; None where it is missing.

    Of a list whose rows have a key others may add rows (a sidecar, an injected variable); ours must be as we want them.
    `above` and `field` name the place: the field, and the one that it is in.
    """
    if isinstance(wanted, dict):  # not Mapping: asking for an abstract class costs more than the rest of the walk
        rows = live if isinstance(live, dict) else {}
        return {key: project(rows.get(key, LEFT_OUT.get(key)), value, field, key) for key, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(live, list):
        return _project_rows(live, wanted, above, field)
    return live


def agrees(live: object, wanted: object, above: str = "", field: str = "") -> bool:
    """Whether `project(live, wanted) == wanted`; quicker where it is so, which is nearly always."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            agrees(live.get(key, LEFT_OUT.get(key)), value, field, key) for key, value in wanted.items()
        )
    if live == wanted or not isinstance(wanted, list) or not isinstance(live, list):
        return live == wanted
    rows = _pairs(live, wanted, above, field)
    return rows is not None and all(agrees(one, row, above, field) for one, row in rows)


def beside(live: object, wanted: object, above: str = "", field: str = "") -> object:
    """The part of `live` that `wanted` does not speak of: what `project` leaves out. Empty where there is none.

    It is the same before and after a write that adds what `wanted` says. Rows with a key are a dict by that key.
    """
    if isinstance(wanted, dict) and isinstance(live, dict):
        rest = {key: beside(value, wanted[key], field, key) if key in wanted else value for key, value in live.items()}
        return {key: value for key, value in rest.items() if key not in wanted or value}
    if isinstance(wanted, list) and isinstance(live, list) and (fields := key_fields(above, field)):
        ours = by_key(wanted, fields) or {}
        rows = ((key, row, ours.get(key)) for key, row in (by_key(live, fields) or {}).items())
        rest = {key: row if own is None else beside(row, own, above, field) for key, row, own in rows}
        return {key: value for key, value in rest.items() if key not in ours or value}
    return None


def _project_rows(live: list[Any], wanted: list[Any], above: str, field: str) -> list[object]:
    """Rows with a key are found by it; any other list is one value."""
    rows = _pairs(live, wanted, above, field)
    return live if rows is None else [project(one, row, above, field) for one, row in rows]


def _pairs(live: list[Any], wanted: list[Any], above: str, field: str) -> list[tuple[Any, Any]] | None:
    """Each wanted row with the live one of its key; None for a list that is one value."""
    fields = key_fields(above, field)
    theirs, ours = (by_key(rows, fields) if fields else None for rows in (live, wanted))
    if theirs is None or not ours:
        return None
    return [(theirs.get(key), row) for key, row in ours.items()]


class Applier:
    """Applies manifests of one cluster, remembering the API server's spelling of each.

    `node_paths` are the directories of the nodes below which pods may mount.
    """

    def __init__(self, cluster: Cluster, node_paths: Sequence[str]) -> None:
        self._cluster = cluster
        self._node_paths = node_paths
        self._spelling: dict[tuple[str, str, str], str] = {}  # digests, of the few objects that are spelled otherwise

    async def apply(self, manifest: Manifest, live: Mapping[str, Any] | None) -> bool:
        """Bring the object to what the manifest says; returns whether a write was needed."""
        must_mount_allowed(manifest, self._node_paths)
        wanted = stamped(manifest)
        if live is not None:
            must_be_ours(wanted, live)
            if self._same(wanted, live):
                return False
        answer = await self._apply(wanted, live)
        self._remember(wanted, project(answer, wanted))
        return True

    async def create(self, manifest: Manifest) -> None:
        """Make an object that is never changed, such as a Job of several owners; one that is there already stays."""
        must_mount_allowed(manifest, self._node_paths)
        await self._cluster.create(manifest)

    def _remember(self, wanted: Manifest, seen: object) -> None:
        if seen == wanted:
            self._spelling.pop(_key(wanted), None)
        else:
            self._spelling[_key(wanted)] = _digest([wanted, seen])

    async def _apply(self, wanted: Manifest, live: Mapping[str, Any] | None) -> Manifest:
        """Apply; where the result would be invalid because of rows that an edit made another's, take the lists back.

        An edit of a row's key (a Service's port) makes the row foreign. Applied beside it, ours is a duplicate.
        """
        if live is None:
            return await self._create(wanted)
        try:
            return await self._cluster.apply(wanted)
        except InvalidError:
            await self._cluster.overwrite(wanted)
            return await self._cluster.apply(wanted)

    async def _create(self, wanted: Manifest) -> Manifest:
        answer = await self._cluster.create(wanted)
        if answer is None:
            raise Retry(f"{wanted['kind']} {wanted['metadata']['name']} was made meanwhile", SEEN_S)
        return answer

    def forget(self, namespace: str, name: str) -> None:
        """The LLMService is gone: keep nothing of its objects."""
        for key in [key for key in self._spelling if key[1] == namespace and key[2].startswith(name)]:
            del self._spelling[key]

    def _same(self, wanted: Manifest, live: Mapping[str, Any]) -> bool:
        if agrees(live, wanted):
            return True
        spelling = self._spelling.get(_key(wanted))
        return spelling is not None and spelling == _digest([wanted, project(live, wanted)])


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _key(manifest: Manifest) -> tuple[str, str, str]:
    meta = manifest["metadata"]
    return (str(manifest["kind"]), str(meta["namespace"]), str(meta["name"]))


def must_mount_allowed(manifest: Manifest, allowed: Sequence[str]) -> None:
    """UserError when pods of the object would mount a directory of the nodes that is not below an allowed one."""
    for path in mounted_node_paths(manifest):
        if not within(path, allowed):
            raise UserError(
                "NodePathForbidden",
                f"the pods of {manifest['kind']} {manifest['metadata']['name']} would mount {path} of the nodes; "
                f"{allowed_node_paths(allowed)}",
            )


def must_be_ours(wanted: Manifest, live: Mapping[str, Any]) -> None:
    """Never take over an object that someone else made."""
    wanted_owner = wanted["metadata"]["ownerReferences"][0]
    owners = live.get("metadata", {}).get("ownerReferences") or ()
    if any(owner.get("uid") == wanted_owner["uid"] for owner in owners):
        return
    if any(owner.get("kind") == KIND and owner.get("name") == wanted_owner["name"] for owner in owners):
        raise Retry("the objects of an earlier LLMService of this name are still being deleted", 2.0)
    who = ", ".join(f"{owner.get('kind')} {owner.get('name')}" for owner in owners) or "nobody"
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    raise UserError("NameTaken", f'{kind} "{name}" exists already in {wanted["metadata"]["namespace"]}, owned by {who}')
