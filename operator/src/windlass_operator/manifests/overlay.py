"""`spec.podTemplate` laid over a serving pod: the way out for what has no field of its own, and never a privilege.

The schema is an allow-list (`lib/api/…/crd/pod_template.py`); this module holds what a schema cannot say: which names,
mounts and annotations would reach what the operator keeps. Every rule is a row of CHECKS. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from windlass_api.crd.pod_template import PodTemplateSpec

from windlass_operator.manifests.allowed import POD_ANNOTATIONS, refused
from windlass_operator.manifests.lists import key_fields, key_of
from windlass_operator.manifests.metadata import Manifest, container_security
from windlass_operator.manifests.sources import ADAPTER, BASE, DRAFT
from windlass_operator.manifests.volume import MODEL_PATH, VOLUME_NAME

WHERE = "spec.podTemplate"
SERVER_CONTAINER = "server"
RESERVED_VOLUMES = (VOLUME_NAME, "license")
OF_MODELS = re.compile(rf"{VOLUME_NAME}-({BASE}|{DRAFT}|{ADAPTER}-[0-9]+)")
"""Names of the volumes of a base, a draft model and adapters."""
CONTAINER_LISTS = ("containers", "initContainers")
# Lists whose rows have a key are merged by it; every other list is replaced, but for these, which are added to.
ADDED_TO = ("tolerations",)
SPEC = "spec"  # the field that holds the pod's spec


def laid_over(pod: Manifest, wish: Mapping[str, Any]) -> Manifest:
    """The pod's spec with a judged wish laid over it."""
    merged = _merge(pod, wish, SPEC)
    return {**merged, **_secured(merged, pod)}


def judge(wish: PodTemplateSpec, annotations: Iterable[str] = (), places: Sequence[str] = (MODEL_PATH,)) -> None:
    """ValueError with a sentence where the wish reaches what the operator keeps.

    `annotations` are further allowed; at `places` the models are mounted.
    """
    for sentence in _objections(wish.spec.to_piece(), places):
        raise ValueError(f"{WHERE}.spec.{sentence}")
    key = refused(wish.annotations, POD_ANNOTATIONS, annotations)
    if key:
        raise ValueError(
            f"{WHERE}.annotations[{key}] is not allowed: a kubelet, a container runtime or a network plug-in acts on "
            "it; the administrator may allow it by the chart's value admission.podAnnotations"
        )


def _objections(piece: Mapping[str, Any], places: Sequence[str]) -> Iterator[str]:
    for check in CHECKS:
        yield from check(piece, places)


def _renamed(piece: Mapping[str, Any], _places: Iterable[str]) -> Iterator[str]:
    """The volumes of the models and of the license token are the operator's own."""
    for index, row in enumerate(piece.get("volumes", ())):
        if row["name"] in RESERVED_VOLUMES or _is_model(row["name"]):
            yield f"volumes[{index}]: the operator's own volume has the name {row['name']}; choose another"


def _is_model(name: object) -> bool:
    return name == VOLUME_NAME or OF_MODELS.fullmatch(str(name)) is not None


def _model_covered(piece: Mapping[str, Any], places: Iterable[str]) -> Iterator[str]:
    """A mount at, above or below a model's place in the serving container would hide or extend the model."""
    for index, container in enumerate(piece.get("containers", ())):
        if container["name"] != SERVER_CONTAINER:
            continue
        pairs = ((mount["mountPath"], place) for mount in container.get("volumeMounts", ()) for place in places)
        for path, place in pairs:
            if _overlaps(path, place):
                yield (
                    f"containers[{index}].volumeMounts: {path} would cover {place}, where the model is mounted; "
                    "mount it elsewhere"
                )


def _overlaps(text: str, model_path: str) -> bool:
    place, model = _plain(text), PurePosixPath(model_path)
    return place.is_relative_to(model) or model.is_relative_to(place)


def _plain(text: str) -> PurePosixPath:
    """The absolute path that a runtime makes of it: no double slashes, no dots."""
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return PurePosixPath("/", *parts)


CHECKS: tuple[Callable[[Mapping[str, Any], Iterable[str]], Iterator[str]], ...] = (_renamed, _model_covered)


def with_part(pod: Manifest, part: Manifest) -> Manifest:
    """The pod's spec with a part of our own laid over it, by the same rules of merging."""
    return _merge(pod, part, SPEC)


def _merge(ours: Mapping[str, Any], wish: Mapping[str, Any], above: str) -> Manifest:
    """`above` is the field that holds both."""
    out = dict(ours)
    for field, value in wish.items():
        out[field] = _merged(above, field, out.get(field), value)
    return out


def _merged(above: str, field: str, ours: object, value: object) -> object:
    if isinstance(ours, Mapping) and isinstance(value, Mapping):
        return _merge(ours, value, field)
    if isinstance(ours, list) and isinstance(value, list):
        if field in ADDED_TO:
            return [*ours, *value]
        if fields := key_fields(above, field):
            return _merge_rows(field, fields, ours, value)
    return value


def _merge_rows(field: str, fields: Mapping[str, object], ours: list[Any], wished: list[Any]) -> list[Any]:
    """Ours, each with the wish of its key laid over it, and the other wishes; a key's second wish stays a row.

    The API server refuses that one by its key, where merging would lose it without a word.
    """
    rows, keys = {key_of(row, fields): row for row in ours}, [key_of(row, fields) for row in wished]
    if None in keys or None in rows:
        return wished  # the API server tells what is wrong with it
    again = []
    for index, (key, row) in enumerate(zip(keys, wished, strict=True)):
        if key in keys[:index]:
            again.append(row)
        else:
            rows[key] = _merge(rows.get(key, {}), row, field)
    return [*rows.values(), *again]


def _secured(merged: Manifest, pod: Manifest) -> Manifest:
    """Every container under our own security context; what belongs to the pod as a whole stays ours."""
    out: Manifest = {"securityContext": pod["securityContext"], "automountServiceAccountToken": False}
    models = _volumes_of_the_model(merged)
    for kind in CONTAINER_LISTS:
        if kind in merged:
            out[kind] = [_container(row, models) for row in merged[kind]]
    return out


def _volumes_of_the_model(pod: Manifest) -> frozenset[str]:
    """Names of all volumes that reach what the model's volume reaches: a claim may be named by several volumes."""
    rows = [row for row in pod.get("volumes", ()) if isinstance(row, Mapping)]
    sources = [_source(row) for row in rows if _is_model(row.get("name"))]
    return frozenset({VOLUME_NAME, *(str(row.get("name")) for row in rows if _source(row) in sources)})


def _source(volume: Mapping[str, Any]) -> tuple[str, str]:
    """What a volume mounts, without how: the claim, the export, or the directory of the node."""
    for kind, keys in SOURCES:
        if isinstance(volume.get(kind), Mapping):
            return kind, " ".join(str(volume[kind].get(key)) for key in keys)
    return "", str(volume.get("name"))


SOURCES = (
    ("persistentVolumeClaim", ("claimName",)),
    ("nfs", ("server", "path")),
    ("hostPath", ("path",)),
)


def _container(row: Manifest, models: frozenset[str]) -> Manifest:
    """Under our security context, with the model for reading only, and telling the end of its log when it fails."""
    wished = row.get("volumeMounts")
    mounts = [
        {**one, "readOnly": True} if isinstance(one, Mapping) and one.get("name") in models else one
        for one in (wished if isinstance(wished, list) else ())
    ]
    told = {**row, "terminationMessagePolicy": row.get("terminationMessagePolicy", "FallbackToLogsOnError")}
    return {**told, "securityContext": container_security(), **({"volumeMounts": mounts} if mounts else {})}
