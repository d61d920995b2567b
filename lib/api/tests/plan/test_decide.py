"""Which GPUs a model gets, why, and the sentence when it gets none."""

from __future__ import annotations

import dataclasses

import pytest
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import engine_variables
from windlass_api.plan.decide import decide
from windlass_api.plan.model import REFUSAL_REASONS, Inventory, NodeGpus, Placement, Plan, Refusal
from windlass_sizing.model.facts import ModelFacts

QWEN_7B = ModelFacts(
    architecture="Qwen2ForCausalLM", model_type="qwen2", params=7_615_616_512, params_how="counted from config.json",
    weights_bytes=None, stored_dtype="bfloat16", quantization=None, hidden_size=3584, num_hidden_layers=28,
    num_attention_heads=28, num_key_value_heads=4, head_dim=128, vocab_size=152064, max_model_len=131072,
    intermediate_size=18944, embedding_params=2 * 152064 * 3584, kv_layers=28,
)  # fmt: skip
QWEN_72B = dataclasses.replace(
    QWEN_7B, params=72_706_203_648, hidden_size=8192, num_hidden_layers=80, kv_layers=80, num_attention_heads=64,
    num_key_value_heads=8, intermediate_size=29568, embedding_params=2 * 152064 * 8192, max_model_len=32768,
)  # fmt: skip
L20 = NodeGpus("worker-1", "NVIDIA-L20", 44.99, 8, 8)
A10 = NodeGpus("worker-2", "NVIDIA-A10", 22.49, 4, 4)
T4 = NodeGpus("worker-3", "Tesla-T4", 15.0, 2, 2)
V100 = NodeGpus("worker-5", "Tesla-V100-SXM2-32GB", 32.0, 2, 2)
A100 = NodeGpus("worker-4", "NVIDIA-A100-SXM4-80GB", 80.0, 8, 8, {"serving.windlass.dev/resource-group": "team-a"})


def a_spec(**parts) -> LLMServiceSpec:
    return LLMServiceSpec.model_validate({"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, **parts})


def planned(facts=QWEN_7B, nodes=(L20,), keep=None, **parts) -> Plan:
    plan = decide(a_spec(**parts), facts, Inventory(tuple(nodes)), keep=keep)
    assert isinstance(plan, Plan), plan
    return plan


def refused(facts=QWEN_7B, nodes=(L20,), **parts) -> Refusal:
    refusal = decide(a_spec(**parts), facts, Inventory(tuple(nodes)))
    assert isinstance(refusal, Refusal), refusal
    assert refusal.reason in REFUSAL_REASONS
    assert refusal.remedy
    return refusal


def test_a_7b_takes_one_l20_with_the_defaults():
    """One card, float16, the context cut to 8192, and both figures beside each other."""
    plan = planned()
    assert (plan.gpus, plan.tp, plan.pp, plan.nodes, plan.gpu_type) == (1, 1, 1, 1, "L20")
    assert (plan.max_model_len, plan.dtype, plan.quantization) == (8192, "float16", None)
    assert plan.node_selector == (("nvidia.com/gpu.product", "NVIDIA-L20"),)
    assert plan.to_status()["seedRequiredGib"] == "16.04"
    assert "context cut from 131072 to 8192; set spec.engine.maxModelLen for more" in plan.because
    assert plan.summary() == "1 × L20, TP 1, context 8192, 18.90 of 44.99 GiB needed on each GPU"
    assert (plan.alternatives, plan.advice) == ((), ())
    assert not [line for line in plan.because if "quick formula" in line or "rule of thumb" in line]


def test_a_72b_takes_four_l20_as_the_published_table_says():
    """171 GiB over 48 GiB cards, heads divided by four."""
    plan = planned(QWEN_72B, engine={"maxModelLen": 32768})
    assert (plan.gpus, plan.tp) == (4, 4)
    assert f"{plan.kv_gib:.2f}" == "10.00"
    assert "64 attention heads divide evenly over 4 GPUs" in plan.because


TINY = dataclasses.replace(
    QWEN_7B, params=8_000_000, hidden_size=256, num_hidden_layers=4, kv_layers=4, num_attention_heads=4,
    num_key_value_heads=2, head_dim=64, vocab_size=4096, embedding_params=4096 * 256, max_model_len=2048,
)  # fmt: skip
TWIN = dataclasses.replace(L20, node="worker-9")
TOO_MANY = {
    "two nodes": ({"resources": {"gpus": 16}}, "set spec.resources.gpus to 1"),
    "one node": ({"resources": {"gpus": 4}}, "set spec.resources.gpus to 1"),
    "engines": ({"resources": {"gpus": 4}, "engine": {"workers": 2}}, "set spec.resources.gpus to 2"),
    "a TP": (
        {"engine": {"tensorParallelSize": 2}},
        "set spec.resources.gpus to 1, and leave out spec.engine.tensorParallelSize",
    ),
}


@pytest.mark.parametrize(("parts", "remedy"), TOO_MANY.values(), ids=TOO_MANY.keys())
def test_gpus_without_need_are_questioned(parts, remedy):
    """A model of 8 million parameters on 16 GPUs: the summary says which number suffices."""
    plan = planned(TINY, (L20, TWIN), **parts)
    (warning,) = [line for line in plan.because if line.startswith("warning: ")]
    assert warning.startswith("warning: 1 GPU suffices for an engine that has ")
    assert warning.endswith(f"it holds 256 requests of 2048 tokens at once; {remedy}")
    assert plan.summary().endswith(f"; {warning}")


def test_gpus_of_use_are_not_questioned():
    """A 7B has no room for 256 requests on one card; a number that the plan chose is its own."""
    for plan in (planned(resources={"gpus": 4}), planned(TINY), planned(QWEN_72B)):
        assert not [line for line in plan.because if "suffices" in line]


def test_few_requests_at_once_are_a_warning():
    """With the steps that make room as the advice."""
    plan = planned(nodes=(dataclasses.replace(A10, memory_gib=19.5),))
    (warning,) = [line for line in plan.because if line.startswith("warning: ")]
    assert warning.startswith("warning: only ")
    assert "fit in the KV cache at once (an estimate); others wait" in warning
    assert [line for line in plan.advice if line.startswith("engine.quantization ifq: ")]


def test_the_least_memory_is_taken_and_the_rest_are_alternatives():
    """A 7B leaves the large cards to those who need them."""
    plan = planned(nodes=(L20, A100, A10, T4))
    assert (plan.gpu_type, plan.gpus) == ("A10", 1)
    assert [line.split(":")[0] for line in plan.alternatives] == ["2 × T4", "1 × L20", "1 × A100-80G"]


def test_the_user_chooses_type_and_count():
    """By short name, family, or label; more cards than needed are a wish to be kept."""
    assert planned(nodes=(L20, A10), resources={"gpuType": "L20"}).gpu_type == "L20"
    assert planned(nodes=(L20, A100), resources={"gpuType": "A100"}).gpu_type == "A100-80G"
    plan = planned(resources={"gpus": 4})
    assert (plan.gpus, plan.tp) == (4, 4)


SLICE = NodeGpus("worker-6", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 39.25, 4, 4, {}, "nvidia.com/mig-3g.40gb")
BARE_SLICE = NodeGpus("worker-7", "", None, 2, 2, {}, "nvidia.com/mig-2g.20gb")
SINGLE_STRATEGY = NodeGpus("worker-8", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 39.25, 16, 16)


def test_a_slice_is_a_small_card():
    """The pod asks for the slice's own resource on a node that has that slice, and takes one."""
    plan = planned(nodes=(SLICE, A100))
    assert (plan.gpu_type, plan.gpus, plan.resource) == ("A100-80G-MIG-3g.40gb", 1, "nvidia.com/mig-3g.40gb")
    assert plan.node_selector == (("nvidia.com/mig-3g.40gb.product", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"),)
    assert plan.card_gib == 39.25


def test_slices_of_one_kind_only_are_handed_out_as_gpus():
    """With the device plugin's strategy `single` the resource is nvidia.com/gpu and the label tells of the slice."""
    plan = planned(nodes=(SINGLE_STRATEGY,))
    assert (plan.gpu_type, plan.gpus, plan.resource) == ("A100-80G-MIG-3g.40gb", 1, "nvidia.com/gpu")


def test_a_slice_without_labels_is_known_by_its_resource():
    """Its memory is the least that a driver reports for the profile; no label is selected."""
    plan = planned(nodes=(BARE_SLICE,), engine={"maxModelLen": 2048})
    assert (plan.gpu_type, plan.card_gib, plan.node_selector) == ("MIG-2g.20gb", 19.5, ())


@pytest.mark.parametrize("name", ["nvidia.com/mig-3g.40gb", "3g.40gb", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"])
def test_a_slice_is_asked_for_by_name(name):
    """By resource, profile or label."""
    assert planned(nodes=(A10, SLICE, A100), resources={"gpuType": name}).gpu_type == "A100-80G-MIG-3g.40gb"


def test_a_card_that_is_asked_for_is_never_a_slice():
    """Not by its family, and not when the slice alone is there."""
    assert planned(nodes=(SLICE, A100), resources={"gpuType": "A100"}).gpu_type == "A100-80G"
    assert refused(nodes=(SLICE,), resources={"gpuType": "A100-80G"}).reason == "GpuTypeNotFound"


def test_slices_are_not_joined():
    """Neither on a node nor over nodes: what one slice does not hold, slices do not hold."""
    nodes = tuple(dataclasses.replace(SLICE, node=f"n{number}") for number in range(4))
    assert refused(QWEN_72B, nodes=nodes).reason == "DoesNotFit"
    refusal = refused(nodes=nodes, resources={"gpus": 2}, deployment={"mode": "Standard"})
    assert refusal.reason == "NotEnoughGpus"
    assert "a replica takes one A100-80G-MIG-3g.40gb" in refusal.message


def test_a_card_of_another_maker_is_refused_by_name():
    """The sentence says whose it is, and what there is."""
    refusal = refused(resources={"gpuType": "MI300X"})
    assert refusal.reason == "GpuTypeNotFound"
    assert '"MI300X" is an accelerator of AMD' in refusal.message


def test_a_resource_group_keeps_to_its_nodes():
    """The group becomes a node selector too."""
    plan = planned(nodes=(L20, A100), resources={"resourceGroup": "team-a"})
    assert plan.gpu_type == "A100-80G"
    assert plan.node_selector[1] == ("serving.windlass.dev/resource-group", "team-a")


def test_tensor_parallel_size_decides_the_gpus():
    """Alone it is the count; beside a larger count the rest is pipeline."""
    assert planned(engine={"tensorParallelSize": 2}).gpus == 2
    plan = planned(QWEN_72B, resources={"gpus": 8}, engine={"tensorParallelSize": 4})
    assert (plan.gpus, plan.tp, plan.pp) == (8, 4, 2)


def test_zero_gpus_is_a_plan_for_the_cpu():
    """No card is needed, not even a node with one."""
    plan = planned(nodes=(), resources={"gpus": 0})
    assert (plan.gpus, plan.tp, plan.gpu_type, plan.node_selector) == (0, 1, None, ())
    assert (plan.cpu, plan.shm) == ("1", "1Gi")
    assert plan.summary() == "CPU, no GPU, context 8192"
    assert "gpuType" not in plan.to_status()
    assert plan.dtype == "bfloat16"
    assert planned(nodes=(), resources={"gpus": 0}, engine={"dtype": "float32"}).dtype == "float32"
    assert planned(nodes=(), resources={"gpus": 0}, engine={"quantization": "ifq_nf4"}).dtype == "float16"


def test_the_cpu_engine_gets_its_kv_space():
    """Four full contexts, at least 1 GiB, in the pod's memory; what the user's variable says is planned for."""
    spec = a_spec(resources={"gpus": 0})
    plan = planned(nodes=(), resources={"gpus": 0})
    assert engine_variables(spec, plan) == (("VLLM_CPU_KVCACHE_SPACE", "2"),)
    assert "2 GiB of KV cache" in plan.because
    assert int(plan.memory.removesuffix("Gi")) > (plan.weights_gib + 2) * 1.1
    own = {"env": [{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "40"}], "resources": {"gpus": 0}}
    larger = planned(nodes=(), **own)
    assert engine_variables(a_spec(**own), larger) == (("VLLM_CPU_KVCACHE_SPACE", "40"),)
    assert larger.required_gib == pytest.approx(plan.required_gib + 38)
    two = planned(nodes=(), resources={"gpus": 0}, engine={"workers": 2})
    assert engine_variables(a_spec(), two) == (("VLLM_CPU_KVCACHE_SPACE", "2"),)
    assert two.required_gib == pytest.approx(2 * plan.required_gib)


def test_a_card_or_another_program_gets_no_kv_space():
    """The variable is the CPU engine's, started by us."""
    assert engine_variables(a_spec(), planned()) == ()
    for parts in ({"command": ["sh"]}, {"command": ["sh"], "image": {"family": "deepspeed"}}):
        spec = a_spec(resources={"gpus": 0}, **parts)
        assert engine_variables(spec, planned(nodes=(), resources={"gpus": 0})) == ()


def test_what_the_engine_keeps_and_computes_at_a_time_is_planned_for():
    """The format of the KV cache, the tokens of a step and its sequences, as fields or as flags."""
    plain = planned(engine={"maxModelLen": 32768})
    assert "prompts are read in steps of 8192 tokens" in plain.because
    packed = planned(engine={"maxModelLen": 32768, "kvCacheDtype": "fp8"})
    assert packed.kv_gib == plain.kv_gib / 2
    assert planned(engine={"maxModelLen": 32768}, args=["--kv-cache-dtype", "fp8"]).kv_gib == packed.kv_gib
    longer = planned(engine={"maxModelLen": 32768, "maxNumBatchedTokens": 32768})
    assert longer.overhead_gib > plain.overhead_gib + 1
    assert (
        planned(engine={"maxModelLen": 32768}, args=["--no-enable-chunked-prefill"]).overhead_gib == longer.overhead_gib
    )
    assert planned(engine={"maxNumSeqs": 16}).overhead_gib < planned().overhead_gib


def test_host_memory_is_larger_than_weights_and_video_memory():
    """Max of both × 1.1, shared memory and the engine's own; CPU by cards; the spec wins."""
    plan = planned(QWEN_72B)
    assert int(plan.memory.removesuffix("Gi")) > max(plan.weights_gib, plan.required_gib) * 1.1
    assert (plan.cpu, plan.shm) == ("4", "5Gi")
    own = planned(resources={"cpu": "500m", "memory": "9Gi"})
    assert (own.cpu, own.memory) == ("500m", "9Gi")


def test_advanced_settings_are_planned_for():
    """Flags in args win over the engine section, as they do in the server."""
    plan = planned(engine={"maxModelLen": 4096}, args=["--max-model-len", "2048", "--quantization=ifq_nf4"])
    assert (plan.max_model_len, plan.quantization) == (2048, "ifq_nf4")


def test_models_that_overflow_in_float16_get_bfloat16():
    """The engine refuses float16 for them."""
    gemma = dataclasses.replace(QWEN_7B, model_type="gemma2")
    plan = planned(gemma)
    assert plan.dtype == "bfloat16"
    assert "bfloat16, because gemma2 overflows in float16" in plan.because
    assert planned(gemma, engine={"dtype": "float32"}).dtype == "float32"


def test_a_running_placement_is_kept_while_it_fits():
    """A node that joins does not move a service; a placement that no longer fits is left."""
    assert planned(nodes=(L20, A10), keep=Placement("L20", 1)).gpu_type == "L20"
    assert planned(nodes=(A10,), keep=Placement("L20", 1)).gpu_type == "A10"


def test_a_v100_serves_by_deepspeed_and_by_an_image_of_ones_own():
    """Its kernels are in our DeepSpeed image and not in our vLLM image; beside a newer card it is passed over."""
    assert planned(nodes=(V100,), image={"family": "deepspeed"}).gpu_type == "V100-32G"
    own = {"image": {"repository": "example.com/vllm"}, "engine": {"ignoreEngineLimits": True}}
    assert planned(nodes=(V100,), **own).gpu_type == "V100-32G"
    assert planned(nodes=(V100, L20)).gpu_type == "L20"


def test_free_gpus_do_not_change_a_plan():
    """What pods take now is the scheduler's matter; a plan that followed it would never stand still."""
    busy = dataclasses.replace(L20, free=0)
    assert planned(nodes=(busy, A100)) == planned(nodes=(L20, A100))


def test_a_card_nobody_knows_is_taken_by_count_only():
    """Its memory is unknown, so only the user can vouch for it."""
    odd = NodeGpus("worker-9", "Custom-X", None, 2, 2)
    assert planned(nodes=(odd,), resources={"gpus": 1}).gpu_type == "Custom-X"
    assert refused(nodes=(odd,)).reason == "DoesNotFit"


GPTQ_7B = dataclasses.replace(QWEN_7B, quantization="gptq", quantization_bits=4.0)
MXFP4 = dataclasses.replace(QWEN_7B, quantization="mxfp4", quantization_bits=4.0)
NO_CARDS = dataclasses.replace(L20, allocatable=0)
NF4_FLAGS = ["--dtype", "bfloat16", "--quantization", "ifq_nf4"]


# id: what is asked, the reason, words of the sentence
def test_every_status_text_fits_the_schema():
    """The CRD holds sentences of 1024 characters; a longer one would make the status impossible to write."""
    many = tuple(dataclasses.replace(L20, node=f"n{n}", product=f"Custom-{n}") for n in range(40))
    status = planned(QWEN_72B, nodes=(*many, L20)).to_status()
    for field in ("because", "alternatives", "advice"):
        assert len(status[field]) <= 32
        assert all(len(line) <= 1024 for line in status[field])
