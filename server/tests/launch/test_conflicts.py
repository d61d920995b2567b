"""Combinations that cannot run: each is told in one sentence, before anything starts."""

from dataclasses import replace

import pytest
from windlass.errors import UsageError
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_testbed.cases import every_case

PLAIN = ModelFiles("/data/model", model_type="qwen2", max_model_len=32768, attention_heads=28)
GPTQ = ModelFiles("/data/model", model_type="qwen2", max_model_len=32768, quantization="gptq", attention_heads=28)
L20 = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(3)))
GEMMA = ModelFiles("/data/model", model_type="gemma2", max_model_len=32768, attention_heads=28)
MIXTRAL = ModelFiles("/data/model", model_type="mixtral", max_model_len=32768, attention_heads=28, has_experts=True)
V100 = Machine("cuda", (Gpu("GPU-0", "Tesla V100-SXM2-32GB"),))
T4 = Machine("cuda", (Gpu("GPU-0", "Tesla T4"),))
CPU = Machine("cpu")


@every_case(
    "line, model, machine, said",
    [
        ("--quantization fp8", GPTQ, L20, "--quantization fp8 cannot be put on a model that is gptq already"),
        ("--quantization ifq", GPTQ, L20, "--quantization ifq cannot be put on a model that is gptq already"),
        ("--quantization ifq_nf4 --dtype bfloat16", PLAIN, L20, "--quantization ifq_nf4 runs with float16 only"),
        ("--quantization fp8", PLAIN, T4, "--quantization fp8 needs compute capability 8.9, and Tesla T4 has 7.5"),
        ("--quantization ifq_nf4", PLAIN, T4, "--quantization ifq_nf4 needs compute capability 8.0"),
        ("--quantization ifq", PLAIN, V100, "Tesla V100-SXM2-32GB has 7.0, and the engine is vLLM 0.32.0, whose code"),
        ("--quantization ifq", MIXTRAL, L20, "--quantization ifq does not quantize mixture-of-experts layers"),
        ("--quantization ifq_nf4", GEMMA, L20, "--quantization ifq_nf4 runs with float16 only, in which gemma2"),
        ("--quantization smoothquant", PLAIN, L20, "--quantization smoothquant needs smoothq_model-8bit-auto"),
        (
            "--quantization awqq",
            PLAIN,
            L20,
            '--quantization is "awqq", which is no method; did you mean awq? Else choose one of',
        ),
        ("-tp 4", PLAIN, L20, "--tensor-parallel-size 4 is more than the 3 GPUs of this container"),
        (
            "-tp 2 --pp 2",
            PLAIN,
            L20,
            "--tensor-parallel-size 2 × --pipeline-parallel-size 2 is more than the 3 GPUs of this container",
        ),
        (
            "-tp 2 -dp 2",
            PLAIN,
            L20,
            "--tensor-parallel-size 2 × --data-parallel-size 2 is more than the 3 GPUs of this container; ask for more",
        ),
        ("-tp 1 --data_parallel_size=4", PLAIN, L20, "--tensor-parallel-size 1 × --data-parallel-size 4 is more than"),
        ("-tp 1 -pcp=4", PLAIN, L20, "--tensor-parallel-size 1 × --prefill-context-parallel-size 4 is more than the 3"),
        (
            "-tp 1 --worker-num 2 -dp 3",
            PLAIN,
            L20,
            "--worker-num 2 and --data-parallel-size 3 both say how many engines start; leave one of the two out",
        ),
        ("-tp 1 --worker-num 4", PLAIN, L20, "--tensor-parallel-size 1 for each of 4 workers (--worker-num) is more"),
        ("", PLAIN, L20, "--tensor-parallel-size 3 does not divide the model's 28 attention heads; set it to 2"),
        ("-tp 1 --max-model-len 65536", PLAIN, L20, "--max-model-len 65536 is longer than the model's own 32768"),
        ("-tp 1 --enable-auto-tool-choice", PLAIN, L20, "--enable-auto-tool-choice needs --tool-call-parser"),
    ],
)
def test_conflicts(line: str, model: ModelFiles, machine: Machine, said: str) -> None:
    """S29 and its neighbours."""
    words = tuple(line.split())
    with pytest.raises(UsageError) as error:
        resolve(words if "tp" in line or not line else (*words, "-tp", "1"), {}, model, machine)
    assert str(error.value).startswith(said)
    assert ";" in str(error.value), "it says what to do"


def test_stretched_context_is_the_engines_matter() -> None:
    """Who overrides the model's rope says how long it is."""
    words = ("-tp", "1", "--max-model-len", "65536", "--hf-overrides", '{"rope_scaling": {}}')
    assert resolve(words, {}, PLAIN, L20).value("max-model-len") == 65536
    assert resolve(words[:4], {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, PLAIN, L20)


@pytest.mark.parametrize("more", ["--hf_overrides {}", "--hf-over={}", "--hf-overrides.rope_parameters.factor 4"])
def test_every_spelling_of_an_override_counts(more: str) -> None:
    """As the engine's parser reads them; a value that begins so is none."""
    words = ("-tp", "1", "--max-model-len", "65536")
    assert resolve((*words, *more.split()), {}, PLAIN, L20).value("max-model-len") == 65536
    with pytest.raises(UsageError, match="is longer than the model's own"):
        resolve((*words, "--override-generation-config", '{"--hf-overrides": 1}'), {}, PLAIN, L20)


def test_engines_own_methods_pass() -> None:
    """Q6: under their own names, on the checkpoints that they read."""
    plan = resolve(("--quantization", "gptq_marlin", "-tp", "1"), {}, GPTQ, L20)
    assert "gptq_marlin" in plan.engine_args
    assert "--quantization" not in resolve(("--quantization", "none", "-tp", "1"), {}, GPTQ, L20).engine_args


@pytest.mark.parametrize(
    "line",
    [
        "-tp 1 -dp 3",
        "-tp 1 --worker-num 3 -dp 3",
        "-tp 1 -dp 4 -dp 2",
        "-tp 2 -dp 1 -pcp 1",
        "-tp 1 -pcp 3",
        "-tp 1 -dp 8 -dpl 1 -dpa 10.0.0.1",
        "-tp 1 -dp 8 --data-parallel-backend ray",
        "-tp 1 -pcp 8 --nnodes 8",
    ],
)
def test_engines_that_the_gpus_hold_pass(line: str) -> None:
    """By the last of two equal flags; where other machines may have GPUs, the engine counts."""
    words = tuple(line.split())
    assert resolve(words, {}, PLAIN, L20).value("tensor-parallel-size") == int(words[1])


def test_weights_that_are_not_whole_are_refused() -> None:
    """As inspection has it; another way to load them is another matter."""
    broken = replace(PLAIN, weights_problem="model.safetensors is empty; download it again")
    with pytest.raises(UsageError, match=r"/data/model: model.safetensors is empty; download it again"):
        resolve(("-tp", "1"), {}, broken, L20)
    assert resolve(("-tp", "1", "--load-format", "dummy"), {}, broken, L20)
