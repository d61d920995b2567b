"""The plan in force, kept as an annotation of the service's own Service object, and read back from it.

So nodes that come and go, and a newer operator's formula, never move a running service; only a change of what was
planned for makes a new plan. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from windlass_sizing.facts import ModelFacts

from windlass_operator.api.v1alpha1 import LLMService
from windlass_operator.plan.model import Plan
from windlass_operator.status.children import Object, dig

PLAN_ANNOTATION = "serving.windlass.dev/plan"
# Parts of the spec that no figure depends on; of the image only its family counts.
NOT_PLANNED_FROM: Any = {
    **dict.fromkeys(("replicas", "license", "expose", "suspend", "cache", "pod_template"), True),
    "image": {"version", "repository", "pull_policy", "pull_secrets"},
}


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan, the digest of what it was made from, and how its pods are being replaced."""

    digest: str
    plan: Plan
    rollout: str = ""  # Surge or Replace, chosen when the pods last changed
    pods: str = ""  # the digest of these pods

    def to_text(self) -> str:
        """The annotation's text; one spelling only."""
        return json.dumps(asdict(self), sort_keys=True)

    def to_status(self) -> dict[str, object]:
        """`status.plan` of the resource."""
        return {**self.plan.to_status(), **({"rollout": self.rollout} if self.rollout else {})}


def inputs_digest(service: LLMService, facts: ModelFacts) -> str:
    """Names everything that a plan is made from, but the cluster's nodes."""
    spec = service.spec.model_dump(mode="json", exclude=NOT_PLANNED_FROM)
    return digest_of({"spec": spec, "facts": facts.to_dict()})


def digest_of(value: object) -> str:
    """A short name of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def recorded_plan(live: Object | None) -> PlanRecord | None:
    """The plan that is in force; None when there is none, or one of another version."""
    text = dig(live, "metadata", "annotations", PLAN_ANNOTATION)
    try:
        data = json.loads(text) if text else {}
        values = {key: _frozen(value) for key, value in data["plan"].items()}
        known = PlanRecord(data["digest"], Plan(**values), data["rollout"], data["pods"])
        return known if _whole(values) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _whole(values: Mapping[str, Any]) -> bool:
    return values.keys() == {field.name for field in fields(Plan)}


def _frozen(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """JSON's lists back as tuples."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
