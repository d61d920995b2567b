"""The plan of a service that runs on the CPU, and what its engine is told of memory. Pure.

The CPU engine takes for its KV cache what it is told, whatever the pod asked of its node. So the plan says how much,
and the pod's memory holds it.
"""

from __future__ import annotations

import math

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import formula, words

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan import prefix_offload
from windlass_api.plan.cards import group_selector
from windlass_api.plan.host import Load, host_for
from windlass_api.plan.model import Plan
from windlass_api.plan.offload import Running
from windlass_api.plan.quantize import planned_method
from windlass_api.plan.requested import Requested
from windlass_api.plan.start import Start, unplanned_model

KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"  # whole GiB, of each engine
KV_CONTEXTS = 4  # full contexts that an engine holds at a time


def cpu_plan(start: Start, facts: ModelFacts, requested: Requested) -> Plan:
    """The plan for one replica; it asks for no card, and for memory that holds the KV space."""
    serving, engines = requested.serving, requested.layout.workers
    need = formula.cpu_demand(facts, serving)
    beside_gib = formula.beside_gib(facts, serving)
    space_gib = kv_space_gib(start.spec, need.kv_gib)
    weights_gib = need.weights_gib * engines
    required_gib = (need.required_gib - need.kv_gib + space_gib) * engines
    full = int(space_gib / need.kv_gib) if need.kv_gib else serving.sequences
    load = Load(
        weights_gib=weights_gib,
        cache_gib=space_gib * engines,
        activations_gib=(need.overhead_gib - beside_gib) * engines,
        beside_gib=beside_gib * engines,
        engines=engines,
        running=Running(min(serving.sequences, full + 1), serving.max_model_len),
    )
    host = host_for(start, load)
    return Plan(
        gpus=0,
        tp=1,
        pp=1,
        nodes=1,
        gpu_type=None,
        max_model_len=serving.max_model_len,
        dtype=serving.dtype,
        quantization=planned_method(requested.quantization, serving),
        gpu_memory_utilization_percent=round(serving.utilization * 100),
        enforce_eager=serving.enforce_eager,
        weights_gib=weights_gib,
        kv_gib=need.kv_gib * engines,
        required_gib=required_gib,
        seed_required_gib=formula.seed_demand_gib(facts, serving) * engines,
        cpu=host.cpu,
        memory=host.memory,
        shm=host.shm,
        host_parts=host.figures,
        node_selector=group_selector(start.spec.resources.resource_group),
        workers=engines,
        base=facts.base_path or "",
        because=(
            "spec.resources.gpus is 0: served on the CPU",
            *words.figures(facts, need, serving)[:2],
            *words.unread(facts),
            *(line.replace(" a GPU", "").removeprefix("of that ") for line in words.beside(facts, serving)),
            f"{space_gib} GiB of KV cache" + (" for each engine" if engines > 1 else ""),
            *requested.notes,
            *((prefix_offload.OFF_ON_CPU,) if prefix_offload.in_force(start) else ()),
            *prefix_offload.without_effect(start),
            *unplanned_model(start),
            host.because,
        ),
    )


def kv_space_gib(spec: LLMServiceSpec, context_gib: float) -> int:
    """The KV cache of one engine: what `spec.env` says, else room for some full contexts of `context_gib`."""
    size = next((one.value for one in spec.env if one.name == KV_SPACE), "")
    if size.isdecimal() and int(size) > 0:
        return int(size)
    return max(1, math.ceil(context_gib * KV_CONTEXTS))
