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
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.objects.reading import Object, annotation_of, dig, name_of, owned_by
from windlass_api.plan.record import SEAL, PlanRecord, digest_of, plan_digest
from windlass_base.untrusted_json import parsed

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.pod import RESTARTED_ANNOTATION
from windlass_operator.reconcile.snapshot import Snapshot
from windlass_operator.status.observe import served_generation

RENDERED_ANNOTATION = "serving.windlass.dev/rendered"
KINDS = ("Deployment", "StatefulSet")
NOT_OF_THE_PODS = {"replicas", "suspend"}


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a workload remembers: for whom its template was rendered, and the template where it is an earlier one."""

    generation: int
    operator: str  # its image
    plan: str  # digest of the plan
    template: str  # digest of what this operator rendered, whether or not it is in force
    restarted: str = ""  # the service's annotation
    spec: str = ""  # digest of the service's spec without what concerns no pod
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
    spec: str
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
        spec=spec_digest(snapshot.service),
        adopts=before is not None and before.plan == record.plan and before.pods != pods and _in_force(snapshot),
    )


def spec_digest(service: LLMService) -> str:
    """Names what the service asks of its pods. Defaults are left out: a later release has more fields with them."""
    return digest_of(service.spec.model_dump(mode="json", exclude=NOT_OF_THE_PODS, exclude_defaults=True))


def unchanged(snapshot: Snapshot, operator: str) -> bool:
    """Whether the service is the one that another operator served: then its plan stays, however it is planned today.

    Of several workloads some may be taken over already, by a reconcile that ended between its writes.
    """
    owned = snapshot.children.owned(snapshot.service.metadata.uid)
    workloads = [row for row in owned if row.get("kind") in KINDS]
    taken = [_is_of(row, snapshot) for row in workloads]
    others = [row for row in workloads if (said := remembered(row)) is None or said.operator != operator]
    return bool(others) and all(taken)


def _is_of(live: Object, snapshot: Snapshot) -> bool:
    """Whether the workload was rendered for the service as it is now."""
    said = remembered(live)
    if said is None:
        return _in_force(snapshot)
    return _same(said, snapshot.service.metadata.generation, spec_digest(snapshot.service))


def _same(said: Rendered, generation: int, spec: str) -> bool:
    """The generation, or what it asks of the pods: a scale makes another generation and no other pods."""
    return said.generation == generation or (bool(said.spec) and said.spec == spec)


def _in_force(snapshot: Snapshot) -> bool:
    """Whether the pods are those of this generation, by the status."""
    return served_generation(snapshot.subject) == snapshot.service.metadata.generation


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
    if said.operator != now.operator and _same(said, now.generation, now.spec):
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
    digest = digest_of(spec["template"])
    said = Rendered(now.generation, now.operator, now.plan, digest, now.restarted, now.spec, kept)
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
