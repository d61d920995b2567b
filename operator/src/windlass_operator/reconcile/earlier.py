"""Whether serving pods keep the template that an earlier operator rendered. Pure; ADR 70 has the rule.

An upgrade of the operator replaces no pod. An annotation of each Deployment and StatefulSet records the generation of
its service, the operator and the plan that its template was rendered from. When another operator finds the same service
and plan, the template in the cluster stays, until the service, its plan or its restart annotation changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from windlass_api.crd.status import GENERATION_MAX
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.record import PlanRecord, digest_of, plan_digest, sealed, unsealed

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.pod import RESTARTED_ANNOTATION
from windlass_operator.reconcile.snapshot import Snapshot
from windlass_operator.records.workloads import Workload
from windlass_operator.status.observe import served_generation

RENDERED_ANNOTATION = "serving.windlass.dev/rendered"
KINDS = ("Deployment", "StatefulSet")
NOT_OF_THE_PODS = {"replicas", "suspend"}


@dataclass(frozen=True, slots=True)
class Rendered:
    """The record in a workload's annotation: what its template was rendered from."""

    generation: Annotated[int, msgspec.Meta(ge=0, le=GENERATION_MAX)]
    operator: str  # image of the operator
    plan: str  # digest of the plan
    template: str  # digest of the template that this operator rendered, whether or not it is in the cluster
    restarted: str = ""  # the restart annotation of the service
    spec: str = ""  # digest of the spec without the fields that concern no pod
    kept: Manifest | None = None  # the template of an earlier operator, which is in the cluster instead

    def to_text(self) -> str:
        """The text of the annotation: sorted JSON with a digest, so that an edit shows."""
        return sealed(msgspec.to_builtins(self))


class KeptSpec(msgspec.Struct):
    """The lists of a kept template's pod that are read."""

    containers: list[dict[str, Any]]
    volumes: list[dict[str, Any]] = msgspec.field(default_factory=list)


class KeptTemplate(msgspec.Struct):
    """The shape of a kept template."""

    spec: KeptSpec


@dataclass(frozen=True, slots=True)
class Desired:
    """What a reconcile renders from."""

    generation: int
    operator: str
    restarted: str
    plan: str
    spec: str
    adopts: bool  # whether a template without a record comes from the same service and plan, by an earlier operator


def remembered(live: Workload | None) -> Rendered | None:
    """The record of a workload; None where it is missing, as in version 0.1.0, or was edited, or cannot be."""
    fields = unsealed(live.annotation(RENDERED_ANNOTATION) if live else "")
    try:
        record = msgspec.convert(fields, Rendered)
        if record.kept is not None:
            msgspec.convert(record.kept, KeptTemplate)
    except msgspec.ValidationError:
        return None
    return record


def desired(snapshot: Snapshot, record: PlanRecord, before: PlanRecord | None, operator: str, pods: str) -> Desired:
    """The service and its plan, as `stays` compares them; `pods` is the digest of the pods that are rendered now."""
    meta = snapshot.service.metadata
    return Desired(
        generation=meta.generation,
        operator=operator,
        restarted=meta.annotations.get(RESTARTED_ANNOTATION, ""),
        plan=plan_digest(record.plan),
        spec=spec_digest(snapshot.service),
        adopts=before is not None and before.plan == record.plan and before.pods != pods and _in_force(snapshot),
    )


def spec_digest(service: LLMService) -> str:
    """The digest of what the spec asks of the pods, without defaults: a later release has more fields with them."""
    return digest_of(service.spec.model_dump(mode="json", exclude=NOT_OF_THE_PODS, exclude_defaults=True))


def unchanged(snapshot: Snapshot, operator: str) -> bool:
    """Whether another operator rendered the workloads from this spec: then its plan stays.

    This operator may have taken some of several workloads over, in a reconcile that failed between its writes.
    """
    workloads = snapshot.children.workloads(snapshot.service.metadata.uid)
    taken = [_is_of(row, snapshot) for row in workloads]
    others = [row for row in workloads if (record := remembered(row)) is None or record.operator != operator]
    return bool(others) and all(taken)


def _is_of(live: Workload, snapshot: Snapshot) -> bool:
    """Whether the workload was rendered from the spec as it is now."""
    record = remembered(live)
    if record is None:
        return _in_force(snapshot)
    return _same(record, snapshot.service.metadata.generation, spec_digest(snapshot.service))


def _same(record: Rendered, generation: int, spec: str) -> bool:
    """Whether the spec asks for the same pods: a scale makes another generation and no other pods."""
    return record.generation == generation or (bool(record.spec) and record.spec == spec)


def _in_force(snapshot: Snapshot) -> bool:
    """Whether the pods are those of this generation, by the status."""
    return served_generation(snapshot.subject) == snapshot.service.metadata.generation


def stays(live: Workload | None, rendered: Manifest, now: Desired) -> Manifest | None:
    """The template in the cluster where it stays; None where the rendered one replaces it."""
    if live is None or not live.spec.replicas:
        return None  # no pod would be replaced
    record = remembered(live)
    if record is None:
        return _adopted(live, rendered) if now.adopts and not now.restarted else None
    if (record.restarted, record.plan) != (now.restarted, now.plan):
        return None
    if record.template == digest_of(rendered):
        return record.kept
    if record.operator != now.operator and _same(record, now.generation, now.spec):
        return record.kept or _adopted(live, rendered)
    return None


def _adopted(live: Workload, rendered: Manifest) -> Manifest:
    """The template in the cluster without the annotations of others, such as `kubectl rollout restart` leaves."""
    template = copy.deepcopy(live.spec.template)
    meta, ours = template.get("metadata") or {}, (rendered.get("metadata") or {}).get("annotations") or {}
    noted = {key: text for key, text in (meta.get("annotations") or {}).items() if key in ours}
    kept = {"labels": meta.get("labels") or {}, **({"annotations": noted} if noted else {})}
    return {**template, "metadata": kept}


def settled(wanted: Iterable[Manifest], lives: Iterable[Workload], now: Desired) -> tuple[Manifest, ...]:
    """The objects with the templates that stay in the cluster, and with their records."""
    known = {(row.kind, row.name): row for row in lives}
    return tuple(
        _settled(row, known.get((row["kind"], row["metadata"]["name"])), now) if row["kind"] in KINDS else row
        for row in wanted
    )


def _settled(manifest: Manifest, live: Workload | None, now: Desired) -> Manifest:
    spec, meta = manifest["spec"], manifest["metadata"]
    kept = stays(live, spec["template"], now) if spec["replicas"] else None
    digest = digest_of(spec["template"])
    record = Rendered(now.generation, now.operator, now.plan, digest, now.restarted, now.spec, kept)
    annotations = {**meta.get("annotations", {}), RENDERED_ANNOTATION: record.to_text()}
    return {
        **manifest,
        "metadata": {**meta, "annotations": annotations},
        "spec": {**spec, **({"template": kept} if kept else {})},
    }


def kept_images(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """The serving images of the templates that an earlier operator rendered; empty where there are none."""
    found = (remembered(row) for row in workloads)
    templates = [one.kept for one in found if one is not None and one.kept]
    return tuple(sorted({str(row.get("image")) for one in templates for row in _servers(one)}))


def _servers(template: Manifest) -> list[Manifest]:
    return [row for row in template["spec"]["containers"] if row.get("name") == "server"]
