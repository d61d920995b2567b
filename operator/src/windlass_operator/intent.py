"""Pure glue above plan, manifests and status, which do not know each other: what one LLMService's objects shall be.

The plan in force is kept as an annotation of the Deployment that was made from it. So nodes that come and go, and a
newer operator's formula, never move a running service; only a change of what was planned for makes a new plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydantic import ValidationError
from windlass_sizing.errors import FactsError
from windlass_sizing.facts import ModelFacts

from windlass_operator.api.v1alpha1 import LLMService
from windlass_operator.errors import UserError
from windlass_operator.manifests.deployment import PodShape, deployment
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.service import service as service_manifest
from windlass_operator.manifests.volume import model_volume
from windlass_operator.plan.args import container_command
from windlass_operator.plan.model import Plan
from windlass_operator.settings import Settings
from windlass_operator.status.children import Object, dig
from windlass_operator.status.inspection import FINISHED_ANNOTATION, RESULT_ANNOTATION, Inspection
from windlass_operator.status.observe import Subject

PLAN_ANNOTATION = "serving.windlass.dev/plan"
NOT_PLANNED_FROM = {"replicas", "license", "image"}  # parts of the spec that no figure depends on


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan, and the digest of what it was made from."""

    digest: str
    plan: Plan

    def to_text(self) -> str:
        """The annotation's text; one spelling only."""
        return json.dumps({"digest": self.digest, "plan": asdict(self.plan)}, sort_keys=True)


def parse_service(raw: Mapping[str, Any]) -> LLMService:
    """The resource as our model; UserError when it got past the API server and is still not usable."""
    try:
        service = LLMService.model_validate(raw)
        model_volume(service.spec.model.source)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError("Rejected", f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise UserError("Rejected", str(error)) from error
    return service


def subject_of(raw: Mapping[str, Any]) -> Subject:
    """What the status needs of a resource, however broken it is."""
    replicas = dig(raw, "spec", "replicas")
    status = raw.get("status")
    return Subject(
        name=str(dig(raw, "metadata", "name")),
        namespace=str(dig(raw, "metadata", "namespace")),
        generation=int(dig(raw, "metadata", "generation") or 0),
        replicas=replicas if isinstance(replicas, int) else 1,
        license_required=dig(raw, "spec", "license", "required") is not False,
        previous=status if isinstance(status, Mapping) else {},
    )


def facts_of(inspection: Inspection) -> ModelFacts:
    """The model's facts that the inspect Job found."""
    try:
        return ModelFacts.from_dict(inspection.facts or {})
    except FactsError as error:
        raise UserError("InspectFailed", str(error)) from error


def model_sentence(service: LLMService, facts: ModelFacts) -> str:
    """What was found, in one line for ModelReady."""
    size = f", {facts.weights_bytes / 1024**3:.2f} GiB of weights" if facts.weights_bytes else ""
    where = model_volume(service.spec.model.source).label
    return f"{facts.architecture}, {facts.params_text} parameters{size}, in {where}"


def inputs_digest(service: LLMService, facts: ModelFacts) -> str:
    """Names everything that a plan is made from, but the cluster's nodes."""
    spec = service.spec.model_dump(mode="json", exclude=NOT_PLANNED_FROM)
    text = json.dumps({"spec": spec, "facts": facts.to_dict()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def recorded_plan(live: Object | None) -> PlanRecord | None:
    """The plan that the Deployment was made from; None when there is none, or one of another version."""
    text = dig(live, "metadata", "annotations", PLAN_ANNOTATION)
    try:
        data = json.loads(text) if text else {}
        values = {key: _frozen(value) for key, value in data["plan"].items()}
        return PlanRecord(data["digest"], Plan(**values)) if _whole(values) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _whole(values: Mapping[str, Any]) -> bool:
    return values.keys() == {field.name for field in fields(Plan)}


def _frozen(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """JSON's lists back as tuples."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def workload(service: LLMService, record: PlanRecord, settings: Settings) -> tuple[Manifest, ...]:
    """The objects that serve the model by this plan."""
    return (deployment(service, pod_shape(service, record, settings)), service_manifest(service))


def pod_shape(service: LLMService, record: PlanRecord, settings: Settings) -> PodShape:
    """The serving pod that a plan and the operator's settings make."""
    plan, image = record.plan, service.spec.image
    command, args = container_command(service.spec, plan)
    return PodShape(
        image=f"{image.repository or settings.server_image}:{image.version or settings.server_version}",
        command=command,
        args=args,
        cpu=plan.cpu,
        memory=plan.memory,
        shm=plan.shm,
        gpus=plan.gpus,
        weights_gib=plan.weights_gib,
        node_selector=plan.node_selector,
        license_addresses=settings.license_addresses,
        annotations=((PLAN_ANNOTATION, record.to_text()),),
    )


def with_finding(job: Manifest, inspection: Inspection) -> Manifest:
    """The Job with its finding kept on it, so that it outlives the pod."""
    if not inspection.text:
        return job
    kept = {RESULT_ANNOTATION: inspection.text, FINISHED_ANNOTATION: inspection.finished_at}
    return {**job, "metadata": {**job["metadata"], "annotations": kept}}
