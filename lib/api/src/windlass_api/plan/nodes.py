"""The nodes that a spec lets its pods use, as the scheduler judges them: labels, required affinity, taints.

The plan chooses among these nodes alone, and the Jobs of a service run on them. `spec.podTemplate` is laid over the
pods, so its labels win over those of `spec.scheduling`, and its tolerations are added. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import GPU_RESOURCE, NodeGpus, Taint

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FIELDS = "metadata.name"  # the only field of a node that a term may name
Rows = tuple[Mapping[str, Any], ...]


def node_selector(spec: LLMServiceSpec, between: Mapping[str, str] | None = None) -> dict[str, str]:
    """The labels that a node must have; `between` are the operator's own, which `spec.podTemplate` may overrule."""
    return {**spec.scheduling.node_selector, **(between or {}), **(spec.pod_template.spec.node_selector or {})}


def required_affinity(spec: LLMServiceSpec) -> Mapping[str, Any]:
    """`affinity.nodeAffinity`'s required part in Kubernetes' words; empty without one."""
    affinity = spec.pod_template.spec.to_piece().get("affinity") or {}
    return (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}


def tolerations(spec: LLMServiceSpec) -> Rows:
    """The taints that the spec bears, in Kubernetes' words."""
    own = (one.model_dump(by_alias=True, exclude_defaults=True) for one in spec.scheduling.tolerations)
    return (*own, *(spec.pod_template.spec.to_piece().get("tolerations") or ()))


def has_labels(node: NodeGpus, spec: LLMServiceSpec) -> bool:
    """Whether selector and required affinity let the pods onto the node."""
    selected = node_selector(spec).items() <= dict(node.labels).items()
    terms = required_affinity(spec).get("nodeSelectorTerms")
    return selected and (not terms or any(_fits(term, node) for term in terms))


def untolerated(node: NodeGpus, spec: LLMServiceSpec) -> Taint | None:
    """The first taint of the node that keeps the pods off it; they bear those of GPUs without being told."""
    borne = tolerations(spec)
    ours = (GPU_RESOURCE, node.resource)
    return next(
        (one for one in node.taints if one.key not in ours and not any(_bears(row, one) for row in borne)), None
    )


def _bears(row: Mapping[str, Any], taint: Taint) -> bool:
    key, effect = row.get("key") or "", row.get("effect") or ""
    if effect not in ("", taint.effect) or (key and key != taint.key):
        return False
    if (row.get("operator") or "Equal") == "Exists":
        return True
    return bool(key) and (row.get("value") or "") == taint.value


def _fits(term: Mapping[str, Any], node: NodeGpus) -> bool:
    """All of the term's conditions; a term without any fits no node."""
    labels = [(row, node.labels) for row in term.get("matchExpressions") or ()]
    fields = [(row, {FIELDS: node.node}) for row in term.get("matchFields") or ()]
    rows = [*labels, *fields]
    return bool(rows) and all(_holds(row, values) for row, values in rows)


def _holds(row: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    operator, choices, value = row["operator"], row.get("values") or (), values.get(row["key"])
    if operator in ("NotIn", "DoesNotExist"):
        return value is None or (operator == "NotIn" and value not in choices)
    if value is None or operator == "Exists":
        return value is not None
    if operator == "In":
        return value in choices
    return _compared(operator, value, choices)


def _compared(operator: str, value: str, choices: Iterable[str]) -> bool:
    """Gt and Lt compare whole numbers; anything else fits no node."""
    try:
        number, (bound,) = int(value), map(int, choices)
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound
