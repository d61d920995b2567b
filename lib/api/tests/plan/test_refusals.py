"""Why a model gets no GPU: each reason with its sentence."""

from __future__ import annotations

import dataclasses

from windlass_testbed.cases import every_case

from .test_decide import A10, GPTQ_7B, L20, MXFP4, NF4_FLAGS, NO_CARDS, QWEN_7B, QWEN_72B, T4, V100, planned, refused

REFUSALS = {
    "no GPU nodes": ({"nodes": ()}, "NoGpuNodes", "no node of the cluster offers nvidia.com/gpu; add a GPU node"),
    "nodes without cards": ({"nodes": (NO_CARDS,)}, "NoGpuNodes", "set spec.resources.gpus to 0"),
    "unknown type": (
        {"resources": {"gpuType": "H100"}},
        "GpuTypeNotFound",
        "no GPU node of type H100; the largest nodes have: 8 × NVIDIA-L20",
    ),
    "unknown group": ({"resources": {"resourceGroup": "b"}}, "GpuTypeNotFound", "resource group b"),
    "more than any node": (
        {"resources": {"gpus": 16}, "nodes": (L20, A10)},
        "NotEnoughGpus",
        "16 GPUs are asked for a replica, and the largest node (worker-1) has 8 × NVIDIA-L20; "
        "set spec.resources.gpus to 8 or less",
    ),
    "more than two nodes": (
        {"resources": {"gpus": 17}, "nodes": (L20, dataclasses.replace(L20, node="worker-9"))},
        "NotEnoughGpus",
        "2 nodes have that GPU, 16 in all; set spec.resources.gpus to 8 or less, or to 16 over 2 nodes, or add a ",
    ),
    "not a multiple": (
        {"resources": {"gpus": 6}, "engine": {"tensorParallelSize": 4}},
        "BadParallelism",
        "6 is not a multiple of tensorParallelSize 4",
    ),
    "heads do not divide": (
        {"resources": {"gpus": 3}},
        "BadParallelism",
        "28 heads and 4 KV heads cannot be split over 3 GPUs; 1, 2, 4, 28 are possible",
    ),
    "tensor parallel on the CPU": (
        {"resources": {"gpus": 0}, "engine": {"tensorParallelSize": 2}},
        "BadParallelism",
        "gpus is 0 and tensorParallelSize is 2",
    ),
    "a card without kernels": (
        {"nodes": (V100,)},
        "GpuWithoutKernels",
        "the vllm image needs compute capability 7.5; V100-32G has 7.0; set spec.image.family to deepspeed, ",
    ),
    "a card without kernels, and an image of one's own": (
        {"nodes": (V100,), "image": {"repository": "example.com/vllm"}},
        "GpuWithoutKernels",
        "V100-32G has 7.0, and the engine is vLLM 0.32.0, whose code begins at 7.5; serve the model by the DeepSpeed",
    ),
    "old card": ({"nodes": (T4,), "engine": {"quantization": "fp8"}}, "UnsupportedQuantization", "T4 has 7.5"),
    "ifq in bfloat16": (
        {"engine": {"quantization": "ifq", "dtype": "bfloat16"}},
        "UnsupportedQuantization",
        "ifq runs with float16 only, not bfloat16; set spec.engine.dtype float16, take fp8, or leave",
    ),
    "ifq on a V100 with an image of one's own": (
        {
            "nodes": (V100,),
            "image": {"repository": "example.com/vllm"},
            "engine": {"quantization": "ifq", "ignoreEngineLimits": True},
        },
        "UnsupportedQuantization",
        "ifq needs compute capability 7.5, and V100-32G has 7.0",
    ),
    "ifq_nf4 on a model that overflows": (
        {"facts": dataclasses.replace(QWEN_7B, model_type="gemma2"), "engine": {"quantization": "ifq_nf4"}},
        "UnsupportedQuantization",
        "ifq_nf4 runs with float16 only, in which gemma2 overflows; take fp8, or leave",
    ),
    "smoothquant without its file": (
        {"facts": dataclasses.replace(QWEN_7B, has_smoothquant_file=False), "engine": {"quantization": "smoothquant"}},
        "UnsupportedQuantization",
        "smoothquant needs smoothq_model-8bit-auto.safetensors in the model directory",
    ),
    "a checkpoint that the engine cannot read": (
        {"facts": dataclasses.replace(QWEN_7B, quantization="bitsandbytes", quantization_bits=4.0)},
        "UnsupportedQuantization",
        "the checkpoint is quantized by bitsandbytes, which is a plug-in of the engine that no image installs",
    ),
    "mxfp4 in float16": (
        {"facts": MXFP4, "engine": {"dtype": "float16"}},
        "UnsupportedDtype",
        "a checkpoint quantized by mxfp4 computes in bfloat16, not float16; set spec.engine.dtype to bfloat16",
    ),
    "mxfp4 on a T4": (
        {"facts": MXFP4, "nodes": (T4,)},
        "UnsupportedQuantization",
        "a checkpoint quantized by mxfp4 needs compute capability 8.0, and T4 has 7.5",
    ),
    "an architecture that the engine gave up": (
        {"facts": dataclasses.replace(QWEN_7B, architecture="BaichuanForCausalLM", brings_code=True)},
        "ArchitectureNotServed",
        "the model is a BaichuanForCausalLM, which vLLM 0.23.0 was the last to have; serve Qwen2.5-7B-Instruct",
    ),
    "an unknown architecture": (
        {"facts": dataclasses.replace(QWEN_7B, architecture="Qwen9ForCausalLM", brings_code=False)},
        "ArchitectureNotServed",
        "the model is a Qwen9ForCausalLM, which vLLM 0.32.0 does not have; the nearest that it has is Qwen",
    ),
    "bfloat16 on a T4": (
        {"engine": {"dtype": "bfloat16"}, "nodes": (T4,)},
        "UnsupportedDtype",
        "spec.engine.dtype bfloat16 needs compute capability 8.0, and T4 has 7.5; set spec.engine.dtype to float16",
    ),
    "float16 of a model that overflows": (
        {"facts": dataclasses.replace(QWEN_7B, model_type="gemma2"), "engine": {"dtype": "float16"}},
        "UnsupportedDtype",
        "spec.engine.dtype float16 makes gemma2 overflow; set spec.engine.dtype to bfloat16 or float32",
    ),
    "experts": (
        {"facts": dataclasses.replace(QWEN_7B, num_experts=64), "engine": {"quantization": "ifq"}},
        "UnsupportedQuantization",
        "spec.engine.quantization ifq does not quantize mixture-of-experts layers, and the model has them; take fp8",
    ),
    "already quantized": (
        {"facts": GPTQ_7B, "engine": {"quantization": "ifq"}},
        "UnsupportedQuantization",
        "spec.engine.quantization ifq cannot be put on a model that is gptq already; leave spec.engine.quantization",
    ),
    "nf4 in bfloat16 by flags": ({"args": NF4_FLAGS}, "UnsupportedQuantization", "ifq_nf4 runs with float16 only"),
    "context above the model's": (
        {"engine": {"maxModelLen": 200000}},
        "ContextTooLong",
        "above the model's own context of 131072",
    ),
    "too large": (
        {"facts": QWEN_72B, "nodes": (A10, T4)},
        "DoesNotFit",
        "the largest placement, 4 × A10: 41.33 GiB needed on each",
    ),
    "too large for the asked count": (
        {"facts": QWEN_72B, "resources": {"gpus": 1}},
        "DoesNotFit",
        "in this order: more or larger GPUs: 4 of",
    ),
}


@every_case("case, reason, words", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_says_what_where_and_what_to_do(case, reason, words):
    """Every reason with its sentence."""
    refusal = refused(**case)
    assert (refusal.reason, words in refusal.sentence()) == (reason, True), refusal.sentence()


def test_one_who_knows_better_sets_a_limit_aside():
    """The plan is made, and says what the record of the engine would have refused; rules of our methods stay."""
    beyond = {"ignoreEngineLimits": True}
    plan = planned(dataclasses.replace(QWEN_7B, quantization="bitsandbytes", quantization_bits=4.0), engine=beyond)
    assert any(
        line.startswith("spec.engine.ignoreEngineLimits sets aside: the checkpoint is quantized by bitsandbytes")
        for line in plan.because
    )
    gone = dataclasses.replace(QWEN_7B, architecture="BaichuanForCausalLM", brings_code=True)
    assert planned(gone, args=["--ignore-engine-limits"]).gpus == 1
    assert planned(gone, image={"family": "deepspeed"}).gpus == 1
    twice = refused(GPTQ_7B, engine={**beyond, "quantization": "ifq"})
    assert twice.reason == "UnsupportedQuantization"
