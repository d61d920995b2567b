"""What the operator goes by already: the plan that a service has, which a preview must not contradict.

The operator keeps a plan until something changes that it was made from, however many nodes come. Only where a pod finds
no node does it decide again, and stays with the placement while that fits.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from windlass_api.crd.v1alpha1 import LLMService, LLMServiceSpec
from windlass_api.objects.reading import annotation_of, condition_of, living
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, Placement, Plan, Refusal
from windlass_api.plan.record import PLAN_ANNOTATION, PlanRecord, inputs_digest, recorded_plan
from windlass_base.kube.errors import ForbiddenError, NotFoundError
from windlass_base.kube.rest import Api
from windlass_sizing.model.facts import ModelFacts

from windlass_client import paths, watching


@dataclass(frozen=True, slots=True)
class InForce:
    """The recorded plan of a service, and whether a pod of it finds no node."""

    record: PlanRecord | None = None
    unplaced: bool = False


async def read(api: Api, namespace: str, name: str) -> InForce:
    """What the service goes by; nothing where there is none, or where the right to read it lacks."""
    if not name:
        return InForce()
    with suppress(NotFoundError, ForbiddenError):
        front = await api.call("GET", paths.core(namespace, "services", name), f"service {namespace}/{name}")
        record = recorded_plan(annotation_of(front, PLAN_ANNOTATION))
        if record is not None:
            selector = {"labelSelector": paths.of_service(name)}
            pods = await watching.listing(api, watching.Collection(paths.core(namespace, "pods"), "pods", selector))
            rows = (condition_of(pod, "PodScheduled") or {} for pod in living(pods.rows))
            return InForce(record, any(row.get("reason") == "Unschedulable" for row in rows))
    return InForce()


def decide_again(spec: LLMServiceSpec, facts: ModelFacts, gpus: Inventory, now: InForce) -> tuple[Plan | Refusal, bool]:
    """What the operator would go by for this spec, and whether that is the plan it has."""
    kept = now.record if now.record and now.record.digest == inputs_digest(LLMService(spec=spec), facts) else None
    if kept is None:
        return decide(spec, facts, gpus), False
    if not now.unplaced:
        return kept.plan, True
    place = Placement(kept.plan.gpu_type, kept.plan.gpus, kept.plan.nodes) if kept.plan.gpu_type else None
    answer = decide(spec, facts, gpus, keep=place)
    return (kept.plan, True) if isinstance(answer, Refusal) else (answer, answer == kept.plan)
