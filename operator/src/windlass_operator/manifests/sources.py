"""Every volume that a service's model is read from: the model's, its base's, its adapters', its draft model's.

The serving pod mounts each read-only at a place of its own, the inspect Job mounts their roots. Volumes that reach the
same claim, export or directory are one volume of the pod: the kubelet waits for ever on a claim that is there twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from windlass_api.crd.model import ModelSource
from windlass_api.crd.v1alpha1 import LLMService

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.volume import MODEL_PATH, ROOT_PATH, VOLUME_NAME, model_volume, within_volume

BASE_PATH, DRAFT_PATH, ADAPTERS_PATH = "/data/base", "/data/draft", "/data/adapters"
BASE, DRAFT, ADAPTER = "base", "draft", "adapter"
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]*")


@dataclass(frozen=True, slots=True)
class Source:
    """One source beside the model's: what it is for, the spec's field, and where the serving pod has it."""

    role: str
    field: str
    source: ModelSource
    mount_path: str
    name: str = ""  # of an adapter

    @property
    def volume_name(self) -> str:
        """In pods."""
        number = f"-{PurePosixPath(self.mount_path).name}" if self.role == ADAPTER else ""
        return f"{VOLUME_NAME}-{self.role}{number}"


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume, and where it is mounted."""

    name: str
    volume: Manifest
    path: str
    sub_path: str = ""

    def to_mount(self) -> Manifest:
        """The row of `volumeMounts`; a model is never written to."""
        sub_path = {"subPath": self.sub_path} if self.sub_path else {}
        return {"name": self.name, "mountPath": self.path, "readOnly": True, **sub_path}


def beside(service: LLMService) -> tuple[Source, ...]:
    """The sources that the spec names beside the model's own."""
    model, speculation = service.spec.model, service.spec.engine.speculation
    found = []
    if model.base:
        path = _base_path(_last_of(model.base))
        found.append(Source(BASE, "spec.model.base", model.base, path))
    if speculation:
        found.append(Source(DRAFT, "spec.engine.speculation.source", speculation.source, DRAFT_PATH))
    found += [
        Source(ADAPTER, f'spec.model.adapters "{one.name}"', one.source, f"{ADAPTERS_PATH}/{index}", one.name)
        for index, one in enumerate(model.adapters)
        if one.source
    ]
    return tuple(found)


def adapter_path(service: LLMService, index: int) -> str:
    """Where the server finds an adapter of the spec: inside the model's directory, or where its own source is."""
    one = service.spec.model.adapters[index]
    if one.source is None:
        return one.path
    return str(PurePosixPath(ADAPTERS_PATH, str(index), one.path.strip("/")))


def base_model(service: LLMService, found: str) -> str:
    """Where the serving pod has the base; `found` is its path on the model's volume, empty where it was not found."""
    given = next((one.mount_path for one in beside(service) if one.role == BASE), "")
    return given or (_base_path(PurePosixPath(found).name) if found else "")


def serving_mounts(service: LLMService, base: str) -> tuple[Mount, ...]:
    """All models as the serving pod mounts them, the served one first; `base` as in `base_model`."""
    own = model_volume(service.spec.model.source)
    mounts = [Mount(VOLUME_NAME, own.served, MODEL_PATH, own.served_sub_path)]
    if base:
        volume, sub_path = within_volume(own, base)
        mounts.append(Mount(f"{VOLUME_NAME}-{BASE}", volume, base_model(service, base), sub_path))
    for one in beside(service):
        other = model_volume(one.source)
        mounts.append(Mount(one.volume_name, other.served, one.mount_path, other.served_sub_path))
    return _shared(mounts)


def inspected_mounts(service: LLMService) -> tuple[Mount, ...]:
    """The roots of the volumes as the inspect Job mounts them, the model's first."""
    mounts = [Mount(VOLUME_NAME, model_volume(service.spec.model.source).looked_at, ROOT_PATH)]
    mounts += [
        Mount(one.volume_name, model_volume(one.source).looked_at, _inspected_at(one)) for one in beside(service)
    ]
    return _shared(mounts)


def inspected_rows(service: LLMService) -> list[Manifest]:
    """What the inspect Job looks at beside the model's directory, as its program reads it."""
    places = {one.mount_path: _row(one) for one in beside(service)}
    rows = [places[one.mount_path] for one in beside(service) if one.role != ADAPTER]
    for index, adapter in enumerate(service.spec.model.adapters):
        row = places.get(f"{ADAPTERS_PATH}/{index}", {})
        if not row and adapter.path.startswith("/"):
            continue  # a volume of the user's own pod template: the Job does not see it
        path = str(PurePosixPath(str(row.get("path", "")), adapter.path.strip("/"))) if row else adapter.path
        merge = {"merge": True} if adapter.merge else {}
        rows.append({"role": ADAPTER, **row, "name": adapter.name, "path": path, **merge})
    return rows


def _row(one: Source) -> Manifest:
    volume = model_volume(one.source)
    field = f"{one.field}: path"
    return {"role": one.role, "root": _inspected_at(one), "path": volume.path, "source": volume.label, "field": field}


def _inspected_at(one: Source) -> str:
    return f"{ROOT_PATH}-{one.volume_name.removeprefix(VOLUME_NAME + '-')}"


def volumes(mounts: Iterable[Mount]) -> list[Manifest]:
    """The pod's volumes, each once."""
    return [{"name": name, **volume} for name, volume in {one.name: one.volume for one in mounts}.items()]


def _shared(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Equal volumes under one name, the first one's."""
    names: dict[str, str] = {}
    return tuple(
        Mount(names.setdefault(repr(one.volume), one.name), one.volume, one.path, one.sub_path) for one in mounts
    )


def _base_path(name: str) -> str:
    """A place that ends with the base's own name: the server serves the base under it, beside the adapter."""
    return f"{BASE_PATH}/{name}" if PLAIN_NAME.fullmatch(name) else f"{BASE_PATH}/base"


def _last_of(source: ModelSource) -> str:
    volume = model_volume(source)
    return PurePosixPath(volume.path or volume.label.rpartition(":")[2]).name


def sources(service: LLMService) -> tuple[tuple[str, ModelSource], ...]:
    """Every source of the spec with its field, the model's first."""
    return (("spec.model.source", service.spec.model.source), *((one.field, one.source) for one in beside(service)))
