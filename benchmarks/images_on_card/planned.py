"""What the operator plans for this card from a model's files: the container's command, and the plan's figures.

Pure apart from reading the model directory: `windlass_sizing.files.checkpoint.inspect` sees what the inspect Job sees,
`decide` is the operator's decision, `container_command` the pod's argv.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import container_command
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_sizing.files.checkpoint import inspect

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Planned:
    """A pod's command line and what the plan says of one card, in GiB."""

    words: tuple[str, ...]
    weights_gib: float
    kv_gib: float  # one full context
    overhead_gib: float
    per_gpu_gib: float
    card_gib: float
    utilization: float

    @property
    def cache_gib(self) -> float:
        """What the plan leaves for the KV cache."""
        return self.card_gib * self.utilization - self.weights_gib - self.overhead_gib


def planned(model: Path, engine: dict[str, object], product: str, memory_mib: int) -> Planned:
    """The plan of a service with this `spec.engine`; RuntimeError when there is none."""
    report = inspect(model.parent, model.name)
    if report.facts is None:
        raise RuntimeError(report.message)
    spec = LLMServiceSpec.model_validate(
        {"model": {"id": "model", "source": {"pvc": {"claimName": "models"}}}, "engine": engine}
    )
    node = NodeGpus("card", product.replace(" ", "-"), memory_mib / 1024, 1, 1)
    plan = decide(spec, report.facts, Inventory((node,)))
    if not isinstance(plan, Plan):
        raise RuntimeError(f"{plan.message}; {plan.remedy}")
    command, args = container_command(spec, plan)
    return Planned(
        (*command, *args),
        plan.weights_gib,
        plan.kv_gib,
        plan.overhead_gib,
        plan.per_gpu_gib,
        plan.card_gib or 0,
        plan.gpu_memory_utilization_percent / 100,
    )
