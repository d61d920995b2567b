"""The model's volume: as the server mounts it (the model alone), and as the inspect Job does (its neighbours too).

One row a kind of source; a new kind is a new row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from windlass_api.crd.model import (
    CfsSource,
    GooseFSxSource,
    HostPathSource,
    ModelSource,
    NfsSource,
    PvcSource,
)
from windlass_api.objects.reading import dig
from windlass_api.objects.records import listed, mapped

from windlass_operator.manifests.metadata import Manifest

VOLUME_NAME = "model"
MODEL_PATH = "/data/model"
ROOT_PATH = "/data/volume"


@dataclass(frozen=True, slots=True)
class ModelVolume:
    """One source in all the ways that pods need it."""

    served: Manifest  # the volume of the serving pod
    served_sub_path: str  # inside it, where the model lies
    looked_at: Manifest  # the volume of the inspect Job: the root that can be listed
    path: str  # of the model inside the root
    label: str  # how messages name the source: pvc/models
    node_path: str = ""  # the highest directory of the node that any pod comes to see; empty: none


def model_volume(source: ModelSource) -> ModelVolume:
    """The volume of the one source that is set; the API server's rule says that it is exactly one."""
    for field, build in BUILDERS:
        value = getattr(source, field)
        if value is not None:
            return build(value)
    raise ValueError("a source of spec.model or spec.engine.speculation names no volume")


def within_volume(volume: ModelVolume, path: str) -> tuple[Manifest, str]:
    """Another directory of the volume that the inspect Job looked at, as the serving pod mounts it, and its subPath."""
    host_path = volume.looked_at.get("hostPath")
    if host_path is None:
        return volume.looked_at, path
    return {"hostPath": {**host_path, "path": str(PurePosixPath(host_path["path"], path))}}, ""


def _pvc(source: PvcSource) -> ModelVolume:
    path = str(PurePosixPath(source.path.strip("/"))) if source.path.strip("/") else ""
    # readOnly stands on the mount, not here: on the volume it would make the claim's whole attachment read-only,
    # which some drivers refuse while another pod writes.
    volume = {"persistentVolumeClaim": {"claimName": source.claim_name}}
    return ModelVolume(volume, path, volume, path, f"pvc/{source.claim_name}")


def _nfs(source: NfsSource) -> ModelVolume:
    return _export("nfs", source.server, source.path)


def _cfs(source: CfsSource) -> ModelVolume:
    return _export("cfs", source.server, source.path)


def _export(kind: str, server: str, path: str) -> ModelVolume:
    # Only the directory itself is sure to be exported, so there is no parent to list.
    volume = {"nfs": {"server": server, "path": path, "readOnly": True}}
    return ModelVolume(volume, "", volume, "", f"{kind}/{server}:{path}")


def _goose_f_sx(source: GooseFSxSource) -> ModelVolume:
    # HostToContainer on the mount would follow a remount of the node's; the model is mounted once and read.
    root = str(PurePosixPath(source.mount_path))
    inside = source.path.strip("/")
    served = {"hostPath": {"path": str(PurePosixPath(root, inside)), "type": "Directory"}}
    looked_at = {"hostPath": {"path": root, "type": "Directory"}}
    return ModelVolume(served, "", looked_at, inside, f"gooseFSx/{root}", root)


def _host_path(source: HostPathSource) -> ModelVolume:
    path = PurePosixPath(source.path)
    # type Directory: without it the container runtime would make the missing directory, empty.
    return ModelVolume(
        {"hostPath": {"path": str(path), "type": "Directory"}},
        "",
        {"hostPath": {"path": str(path.parent), "type": "Directory"}},
        path.name,
        f"hostPath/{path.parent}",
        str(path.parent),
    )


BUILDERS: tuple[tuple[str, Callable[[Any], ModelVolume]], ...] = (
    ("pvc", _pvc),
    ("cfs", _cfs),
    ("nfs", _nfs),
    ("goose_f_sx", _goose_f_sx),
    ("host_path", _host_path),
)


def judge_claims(sources: Iterable[tuple[str, ModelSource]], cache_claim: str) -> None:
    """ValueError when the writable cache would lie on a claim that a model is read from; by the source's field."""
    for field, source in sources:
        if source.pvc is not None and cache_claim == source.pvc.claim_name:
            raise ValueError(
                f"spec.cache names {cache_claim}, the claim of {field} itself, which serving pods mount read-only; "
                "name another"
            )


def within(path: str, prefixes: Iterable[str]) -> bool:
    """Whether a directory of the node lies under one of the allowed prefixes; a path that goes up never does."""
    place = PurePosixPath(path)
    return ".." not in place.parts and any(place.is_relative_to(prefix) for prefix in prefixes)


def mounted_node_paths(manifest: Manifest) -> Iterator[str]:
    """The directories of the node that the pods of a rendered object mount; none where it has no pods."""
    for volume in listed(dig(manifest, "spec", "template", "spec", "volumes")):
        if "hostPath" in volume:
            yield str(mapped(volume["hostPath"]).get("path"))


def allowed_node_paths(prefixes: Sequence[str]) -> str:
    """The end of a sentence that refuses a directory of the nodes."""
    return f"this installation allows directories under: {', '.join(prefixes) or 'none'}"
