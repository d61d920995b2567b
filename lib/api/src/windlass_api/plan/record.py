"""The plan in force, kept as an annotation of the service's own Service object, and read back from it.

So nodes that come and go, and a newer operator's formula, never move a running service; only a change of what was
planned for makes a new plan. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from windlass_base.untrusted_json import parsed
from windlass_sizing.model.facts import ModelFacts, stays_inside

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.model import Plan
from windlass_api.plan.nodes import required_affinity

PLAN_ANNOTATION = "serving.windlass.dev/plan"
SEAL = "seal"
PLAN_FIELDS = tuple(field.name for field in fields(Plan))
LATER = ("resource", "host_parts", "base", "prefix_offload_mib", "sp", "draft_threads", "api_processes")
# Fields that records of older operators lack. They are left out where they have their default, so that such a record
# stays the plan in force, and an older operator reads the new one.
LATER_FIELDS = {field.name: field.default for field in fields(Plan) if field.name in LATER}
Digest = Annotated[str, Meta(max_length=64)]
MODELS_KEPT = 256  # of which the words are kept: several services often serve one model
# Parts of the spec that no figure depends on; of the image only its family counts.
NOT_PLANNED_FROM: Any = {
    **dict.fromkeys(("replicas", "license", "expose", "suspend", "cache", "pod_template"), True),
    "image": {"version", "repository", "pull_policy", "pull_secrets"},
}


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan, the digest of what it was made from, and how its pods are being replaced."""

    digest: Digest
    plan: Plan
    rollout: Annotated[str, Meta(max_length=16)] = ""  # Surge or Replace, chosen when the pods last changed
    pods: Digest = ""  # of these pods

    def to_text(self) -> str:
        """The annotation's text; one spelling only."""
        return sealed(
            {"digest": self.digest, "plan": _plan_fields(self.plan), "rollout": self.rollout, "pods": self.pods}
        )

    def to_status(self) -> dict[str, object]:
        """`status.plan` of the resource."""
        return {**self.plan.to_status(), **({"rollout": self.rollout} if self.rollout else {})}


def inputs_digest(service: LLMService, facts: ModelFacts) -> str:
    """Names everything that a plan is made from, but the cluster's nodes."""
    spec = service.spec.model_dump(mode="json", exclude=NOT_PLANNED_FROM)
    return digest_of({"spec": spec, "facts": _words_of(facts), **_nodes_of(service)})


def _nodes_of(service: LLMService) -> dict[str, Any]:
    """Terms of the pod template about nodes: left out where it says nothing, as records of older operators have it."""
    piece = service.spec.pod_template.spec.to_piece()
    terms = {
        "affinity": required_affinity(service.spec),
        **{key: piece.get(key) for key in ("nodeSelector", "tolerations")},
    }
    nodes = {key: value for key, value in terms.items() if value}
    return {"nodes": nodes} if nodes else {}


@lru_cache(MODELS_KEPT)
def _words_of(facts: ModelFacts) -> Mapping[str, Any]:
    return facts.to_dict()


def plan_digest(plan: Plan) -> str:
    """Names the plan itself; the same for operators that know more fields, while these have their defaults."""
    return digest_of(_plan_fields(plan))


def _plan_fields(plan: Plan) -> dict[str, Any]:
    every = {name: getattr(plan, name) for name in PLAN_FIELDS}
    left_out = {name for name, default in LATER_FIELDS.items() if every[name] == default}
    return {name: value for name, value in every.items() if name not in left_out}


def digest_of(value: object) -> str:
    """A short name of a JSON value."""
    return hashlib.sha256(_json(value)).hexdigest()[:16]


def _json(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def sealed(fields: Mapping[str, Any]) -> str:
    """The text of an annotation, with a digest that shows an edit. Whoever may write the annotation can make one."""
    return _json({**fields, SEAL: digest_of(fields)}).decode()


def unsealed(text: str) -> dict[str, Any] | None:
    """The fields that `sealed` wrote, of any types; None for any other text."""
    fields = parsed(text)
    return fields if isinstance(fields, dict) and fields.pop(SEAL, None) == digest_of(fields) else None


def recorded_plan(text: str) -> PlanRecord | None:
    """The plan that the annotation holds; None when it holds none, one of another version, or one that cannot be."""
    data = unsealed(text)
    try:
        record = msgspec.convert(data, PlanRecord)
    except msgspec.ValidationError:
        return None
    return record if data and _whole(data["plan"]) and stays_inside(record.plan.base) else None


def as_recorded(plan: Plan) -> Plan:
    """The plan as its record gives it back; msgspec.ValidationError names the figure that no plan can have."""
    return msgspec.convert(msgspec.to_builtins(plan), Plan)


def _whole(values: Mapping[str, Any]) -> bool:
    return values.keys() | LATER_FIELDS.keys() == set(PLAN_FIELDS)
