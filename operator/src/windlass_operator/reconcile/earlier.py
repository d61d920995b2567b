"""Whether serving pods keep the template that an earlier operator rendered. Pure; ADR 70 has the rule.

An upgrade of the operator replaces no pod. An annotation of each Deployment and StatefulSet records the generation of
its service, the operator and the plan that its template was rendered from. When another operator finds the same service
and plan, the template in the cluster stays, until the service, its plan or its restart annotation changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from windlass_api.objects.reading import Object, annotation_of, dig, name_of, owned_by
from windlass_api.plan.record import SEAL, PlanRecord, digest_of, plan_digest
from windlass_base.untrusted_json import parsed

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.pod import RESTARTED_ANNOTATION
from windlass_operator.reconcile.snapshot import Snapshot
from windlass_operator.status import conditions as c

RENDERED_ANNOTATION = "serving.windlass.dev/rendered"
KINDS = ("Deployment", "StatefulSet")
# Reasons of Progressing with which an operator says that it did not carry out the observed generation.
REFUSED = ("Rejected", "SpecTooLarge", "InternalError", "NameTaken", "NodePathForbidden", "PlanOverdue")


@dataclass(frozen=True, slots=True)
class Rendered:
    """The record in a workload's annotation: what its template was rendered from."""

    generation: int
    operator: str  # image of the operator
    plan: str  # digest of the plan
    template: str  # digest of the template that this operator rendered, whether or not it is in the cluster
    restarted: str = ""  # the restart annotation of the service
    kept: Manifest | None = None  # the template of an earlier operator, which is in the cluster instead

    def to_text(self) -> str:
        """The text of the annotation: sorted JSON with a digest, so that an edit shows."""
        fields = msgspec.to_builtins(self)
        return msgspec.json.encode({**fields, SEAL: digest_of(fields)}, order="sorted").decode()


@dataclass(frozen=True, slots=True)
class Desired:
    """What a reconcile renders from."""

    generation: int
    operator: str
    restarted: str
    plan: str
    adopts: bool  # whether a template without a record comes from the same service and plan, by an earlier operator


def remembered(live: Object | None) -> Rendered | None:
    """The record of a workload; None where it is missing, as in version 0.1.0, or was edited."""
    fields = parsed(annotation_of(live, RENDERED_ANNOTATION))
    if not isinstance(fields, dict) or fields.pop(SEAL, None) != digest_of(fields):
        return None
    try:
        return msgspec.convert(fields, Rendered)
    except msgspec.ValidationError:
        return None


def desired(snapshot: Snapshot, record: PlanRecord, before: PlanRecord | None, operator: str, pods: str) -> Desired:
    """The service and its plan, as `stays` compares them; `pods` is the digest of the pods that are rendered now."""
    meta = snapshot.service.metadata
    return Desired(
        generation=meta.generation,
        operator=operator,
        restarted=meta.annotations.get(RESTARTED_ANNOTATION, ""),
        plan=plan_digest(record.plan),
        adopts=before is not None and before.plan == record.plan and before.pods != pods and _in_force(snapshot),
    )


def unchanged(snapshot: Snapshot, operator: str) -> bool:
    """Whether another operator rendered all workloads from this generation: then its plan stays."""
    owned = snapshot.children.owned(snapshot.service.metadata.uid)
    workloads = [row for row in owned if row.get("kind") in KINDS]
    return bool(workloads) and all(_by_another(row, snapshot, operator) for row in workloads)


def _by_another(live: Object, snapshot: Snapshot, operator: str) -> bool:
    record = remembered(live)
    if record is None:
        return _in_force(snapshot)
    return record.operator != operator and record.generation == snapshot.service.metadata.generation


def _in_force(snapshot: Snapshot) -> bool:
    """Whether this generation was planned and not refused, by the status, which is written after the objects."""
    if snapshot.subject.previous.get("observedGeneration") != snapshot.service.metadata.generation:
        return False
    rows = snapshot.subject.previous_conditions
    found = [c.find(rows, type_) or {} for type_ in (c.MODEL_READY, c.PLANNED)]
    moves = c.find(rows, c.PROGRESSING) or {}
    return all(row.get("status") == c.TRUE for row in found) and moves.get("reason") not in REFUSED


def stays(live: Object | None, rendered: Manifest, now: Desired) -> Manifest | None:
    """The template in the cluster where it stays; None where the rendered one replaces it."""
    if live is None or not dig(live, "spec", "replicas"):
        return None  # no pod would be replaced
    record = remembered(live)
    if record is None:
        return _adopted(live, rendered) if now.adopts and not now.restarted else None
    if (record.restarted, record.plan) != (now.restarted, now.plan):
        return None
    if record.template == digest_of(rendered):
        return record.kept
    if record.operator != now.operator and record.generation == now.generation:
        return record.kept or _adopted(live, rendered)
    return None


def _adopted(live: Object, rendered: Manifest) -> Manifest:
    """The template in the cluster without the annotations of others, such as `kubectl rollout restart` leaves."""
    template: dict[str, Any] = copy.deepcopy(dict(dig(live, "spec", "template")))
    ours = dig(rendered, "metadata", "annotations") or {}
    noted = {key: text for key, text in (dig(template, "metadata", "annotations") or {}).items() if key in ours}
    meta = {"labels": dig(template, "metadata", "labels") or {}, **({"annotations": noted} if noted else {})}
    return {**template, "metadata": meta}


def settled(wanted: Iterable[Manifest], lives: Iterable[Object], now: Desired) -> tuple[Manifest, ...]:
    """The objects with the templates that stay in the cluster, and with their records."""
    known = {(row.get("kind"), name_of(row)): row for row in lives}
    return tuple(
        _settled(row, known.get((row["kind"], row["metadata"]["name"])), now) if row["kind"] in KINDS else row
        for row in wanted
    )


def _settled(manifest: Manifest, live: Object | None, now: Desired) -> Manifest:
    spec, meta = manifest["spec"], manifest["metadata"]
    kept = stays(live, spec["template"], now) if spec["replicas"] else None
    record = Rendered(now.generation, now.operator, now.plan, digest_of(spec["template"]), now.restarted, kept)
    annotations = {**meta.get("annotations", {}), RENDERED_ANNOTATION: record.to_text()}
    return {
        **manifest,
        "metadata": {**meta, "annotations": annotations},
        "spec": {**spec, **({"template": kept} if kept else {})},
    }


def kept_images(workloads: Iterable[Mapping[str, Any]], uid: str) -> tuple[str, ...]:
    """The serving images of the templates that an earlier operator rendered; empty where there are none."""
    found = (remembered(row) for row in owned_by(workloads, uid))
    templates = [one.kept for one in found if one is not None and one.kept]
    return tuple(sorted({str(row.get("image")) for one in templates for row in _servers(one)}))


def _servers(template: Manifest) -> list[Mapping[str, Any]]:
    return [row for row in dig(template, "spec", "containers") or () if row.get("name") == "server"]
