"""Whether serving pods keep the template that an earlier operator rendered. Pure; ADR 70 has the rule.

An upgrade of the operator shall replace no pod. Each Deployment and StatefulSet remembers for which generation of its
service, by which operator and from which plan it was rendered. Where another operator finds the same service and plan,
the template in the cluster stays in force, word for word, until the service, its plan or its annotation changes.
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
# Words with which an operator says that it did not bring a generation about, whatever its number says.
REFUSED = ("Rejected", "SpecTooLarge", "InternalError", "NameTaken", "NodePathForbidden", "PlanOverdue")


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a workload remembers: for whom its template was rendered, and the template where it is an earlier one."""

    generation: int
    operator: str  # its image
    plan: str  # digest of the plan
    template: str  # digest of what this operator rendered, whether or not it is in force
    restarted: str = ""  # the service's annotation
    kept: Manifest | None = None  # an earlier operator's template, which is in force instead

    def to_text(self) -> str:
        """The annotation's text; one spelling only, and a seal that breaks when somebody edits it."""
        said = msgspec.to_builtins(self)
        return msgspec.json.encode({**said, SEAL: digest_of(said)}, order="sorted").decode()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reconcile renders for."""

    generation: int
    operator: str
    restarted: str
    plan: str
    adopts: bool  # whether a template without a memory is that of the same service and plan, by an earlier operator


def remembered(live: Object | None) -> Rendered | None:
    """What the workload says of itself; None where it says nothing that can be read, as every one of 0.1.0."""
    said = parsed(annotation_of(live, RENDERED_ANNOTATION))
    if not isinstance(said, dict) or said.pop(SEAL, None) != digest_of(said):
        return None
    try:
        return msgspec.convert(said, Rendered)
    except msgspec.ValidationError:
        return None


def asked(snapshot: Snapshot, record: PlanRecord, before: PlanRecord | None, operator: str, pods: str) -> Asked:
    """The service and its plan, as `stays` compares them; `pods` is the digest of the pods that are rendered now."""
    meta = snapshot.service.metadata
    return Asked(
        generation=meta.generation,
        operator=operator,
        restarted=meta.annotations.get(RESTARTED_ANNOTATION, ""),
        plan=plan_digest(record.plan),
        adopts=before is not None and before.plan == record.plan and before.pods != pods and _in_force(snapshot),
    )


def unchanged(snapshot: Snapshot, operator: str) -> bool:
    """Whether the service is the one that another operator served: then its plan stays, however it is planned today."""
    owned = snapshot.children.owned(snapshot.service.metadata.uid)
    workloads = [row for row in owned if row.get("kind") in KINDS]
    return bool(workloads) and all(_by_another(row, snapshot, operator) for row in workloads)


def _by_another(live: Object, snapshot: Snapshot, operator: str) -> bool:
    said = remembered(live)
    if said is None:
        return _in_force(snapshot)
    return said.operator != operator and said.generation == snapshot.service.metadata.generation


def _in_force(snapshot: Snapshot) -> bool:
    """By the status, which is written after the objects: this generation was planned, and not refused."""
    if snapshot.subject.previous.get("observedGeneration") != snapshot.service.metadata.generation:
        return False
    rows = snapshot.subject.previous_conditions
    found = [c.find(rows, type_) or {} for type_ in (c.MODEL_READY, c.PLANNED)]
    moves = c.find(rows, c.PROGRESSING) or {}
    return all(row.get("status") == c.TRUE for row in found) and moves.get("reason") not in REFUSED


def stays(live: Object | None, rendered: Manifest, now: Asked) -> Manifest | None:
    """The template in force instead of the one that is rendered; None where the rendered one is to be taken."""
    if live is None or not dig(live, "spec", "replicas"):
        return None  # no pod would be replaced
    said = remembered(live)
    if said is None:
        return _adopted(live, rendered) if now.adopts and not now.restarted else None
    if (said.restarted, said.plan) != (now.restarted, now.plan):
        return None
    if said.template == digest_of(rendered):
        return said.kept
    if said.operator != now.operator and said.generation == now.generation:
        return said.kept or _adopted(live, rendered)
    return None


def _adopted(live: Object, rendered: Manifest) -> Manifest:
    """The template in the cluster as ours; annotations of others (`kubectl rollout restart`) stay theirs."""
    template: dict[str, Any] = copy.deepcopy(dict(dig(live, "spec", "template")))
    ours = dig(rendered, "metadata", "annotations") or {}
    noted = {key: text for key, text in (dig(template, "metadata", "annotations") or {}).items() if key in ours}
    meta = {"labels": dig(template, "metadata", "labels") or {}, **({"annotations": noted} if noted else {})}
    return {**template, "metadata": meta}


def settled(wanted: Iterable[Manifest], lives: Iterable[Object], now: Asked) -> tuple[Manifest, ...]:
    """The objects with the templates that are in force, and with what they remember."""
    known = {(row.get("kind"), name_of(row)): row for row in lives}
    return tuple(
        _settled(row, known.get((row["kind"], row["metadata"]["name"])), now) if row["kind"] in KINDS else row
        for row in wanted
    )


def _settled(manifest: Manifest, live: Object | None, now: Asked) -> Manifest:
    spec, meta = manifest["spec"], manifest["metadata"]
    kept = stays(live, spec["template"], now) if spec["replicas"] else None
    said = Rendered(now.generation, now.operator, now.plan, digest_of(spec["template"]), now.restarted, kept)
    annotations = {**meta.get("annotations", {}), RENDERED_ANNOTATION: said.to_text()}
    return {
        **manifest,
        "metadata": {**meta, "annotations": annotations},
        "spec": {**spec, **({"template": kept} if kept else {})},
    }


def kept_images(workloads: Iterable[Mapping[str, Any]], uid: str) -> tuple[str, ...]:
    """The serving images of the templates that an earlier operator rendered; empty where there are none."""
    found = (remembered(row) for row in owned_by(workloads, uid))
    templates = [said.kept for said in found if said is not None and said.kept]
    return tuple(sorted({str(row.get("image")) for one in templates for row in _servers(one)}))


def _servers(template: Manifest) -> list[Mapping[str, Any]]:
    return [row for row in dig(template, "spec", "containers") or () if row.get("name") == "server"]
