"""`windlass quantize` in the serving image: GPTQ by the engine's own reader, smoothquant on models of many shapes."""

import pytest

from .test_quantization import CHECKPOINT_BYTES, DEMO, difference, load

SHAPES = ("gemma", "gemma2", "gemma3", "phi3", "glm4")
SAMPLE = ("gemma2", "phi3")  # what the gate loads in vLLM
# Nats of a token's log-probability, in the mean. Random layers amplify rounding more than trained ones: 0.18 with the
# kernels for AVX2, whose products of bytes are rounded otherwise than those of VNNI.
BOUND = 0.25
ATTENTION = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
OVER_ONE, NORM, ROWS = "norm over one", "norm", "rows"
GEMMA = {
    "input_layernorm": (ATTENTION, OVER_ONE, [0, 0]),
    "self_attn.v_proj": (["self_attn.o_proj"], ROWS, [0, 64]),
    "mlp.up_proj": (["mlp.down_proj"], ROWS, [0, 256]),
}
MLP = ["mlp.gate_proj", "mlp.up_proj"]
FUSED = {
    "post_attention_layernorm": (["mlp.gate_up_proj"], NORM, [0, 0]),
    "mlp.gate_up_proj": (["mlp.down_proj"], ROWS, [256, 512]),
}
GROUPS = {
    "gemma": {**GEMMA, "post_attention_layernorm": (MLP, OVER_ONE, [0, 0])},
    "gemma2": {**GEMMA, "pre_feedforward_layernorm": (MLP, OVER_ONE, [0, 0])},
    "gemma3": {**GEMMA, "pre_feedforward_layernorm": (MLP, OVER_ONE, [0, 0])},
    "phi3": {
        **FUSED,
        "input_layernorm": (["self_attn.qkv_proj"], NORM, [0, 0]),
        "self_attn.qkv_proj": (["self_attn.o_proj"], ROWS, [192, 256]),
    },
    "glm4": {
        **FUSED,
        "input_layernorm": (ATTENTION, NORM, [0, 0]),
        "self_attn.v_proj": (["self_attn.o_proj"], ROWS, [0, 64]),
    },
}
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def shapes(engine, tmp_path_factory):
    """Tiny models of random weights with smoothquant's files, and what was printed of them."""
    out = tmp_path_factory.mktemp("shapes")
    mounts = {out: "/out"}
    engine.python("/repo/models/tiny/make.py", "/out", *SHAPES, "moe", "vision", "mla", mounts=mounts)
    return out, engine.result("/repo/tests/engine/quantization/make_shapes.py", "/out", *SHAPES, mounts=mounts)


@pytest.fixture(scope="module")
def gptq(engine, tmp_path_factory):
    """The demo model as a GPTQ checkpoint, and what was printed of it."""
    out = tmp_path_factory.mktemp("gptq")
    mounts = {DEMO: "/demo:ro", out: "/out"}
    return out, engine.result("/repo/tests/engine/quantization/make_gptq.py", "/out", mounts=mounts)


@pytest.mark.parametrize("kind", SHAPES)
def test_groups_are_found_by_structure(shapes, kind):
    """Which layers share an input, and what takes the smoothing in: Gemma's norms, fused projections."""
    found = {before: (layers, takes, rows) for layers, before, takes, rows in shapes[1]["groups"][kind]}
    assert found == GROUPS[kind]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "moe",
            "is a mixture of experts (model.layers.0.mlp.experts.gate_up_proj), and samples make dense layers only",
        ),
        ("mla", "is a mixture of experts"),
        ("vision", "is a llava, which transformers does not load; serve it with ifq or fp8"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(shapes, kind, words):
    """Before anything is calibrated."""
    assert words in shapes[1]["refused"][kind]


def near(engine, folder, kinds):
    """By kind: the mean distance of log-probabilities from the unquantized model's, in the engine."""
    runs = {(kind, how): (f"/out/{kind}", how, "float32") for kind in kinds for how in ("none", "smoothquant")}
    found = load(engine, runs, {folder: "/out:ro"})[0]
    assert [one["refused"] for one in found.values() if "refused" in one] == []
    assert {found[kind, "smoothquant"]["engine_method"] for kind in kinds} == {"smoothquant"}
    return {kind: difference(found[kind, "none"], found[kind, "smoothquant"]) for kind in kinds}


def test_the_engine_serves_the_file_near_the_model(engine, shapes):
    """The norm over one of Gemma, and one matrix for q, k and v."""
    found = near(engine, shapes[0], SAMPLE)
    assert {kind: far for kind, far in found.items() if not 0 < far < BOUND} == {}


@pytest.mark.long
def test_the_engine_serves_the_others_too(engine, shapes):
    """The rest of the shapes."""
    found = near(engine, shapes[0], [kind for kind in SHAPES if kind not in SAMPLE])
    assert {kind: far for kind, far in found.items() if not 0 < far < BOUND} == {}


def test_gptq_writes_a_model_directory(gptq):
    """The recipe's settings, the model's other files and not its old weights; a directory that has files is refused."""
    printed = gptq[1]
    wanted = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
    assert {name: printed["config"][name] for name in wanted} == wanted
    assert {"tokenizer.json", "chat_template.jinja", "model.safetensors.index.json"} <= set(printed["files"])
    assert [file for file in printed["files"] if file.endswith(".safetensors")] == ["model-00001-of-00001.safetensors"]
    assert printed["again"][0] == 2
    assert "is not an empty directory" in printed["again"][1]


def test_gptq_s_tensors_are_near_the_original(gptq):
    """Every linear layer, within twice the distance of the nearest codes: errors are moved where inputs are small."""
    distances, errors = gptq[1]["distances"], gptq[1]["errors"]
    assert len(distances) == len(errors) == 8 * 7
    assert {name: far for name, far in distances.items() if not 0.9 < far < 2} == {}
    assert {name: error for name, error in errors.items() if not error < 0.01} == {}


def test_gptq_s_progress_is_lines_in_a_log(gptq):
    """No bar of a library in between."""
    lines = gptq[1]["progress"].splitlines()
    assert [line for line in lines if line.startswith("windlass: ")][-1] == "windlass: layers 8 of 8"
    assert "it/s" not in gptq[1]["progress"]


READS_GPTQ = "import torch, vllm._custom_ops; print(hasattr(torch.ops._C, 'cpu_gemm_wna16'))"
"""vLLM's library for AVX2 has no product of 4-bit weights, and the engine ends: docs/reference/images.md says it."""


def test_the_engine_s_own_reader_serves_gptq(engine, gptq):
    """Without a flag: the method is found in the checkpoint, and the answer begins as it was trained.

    It begins so by a few tokens only: after them a processor's own rounding chooses between near words.
    """
    runs = {"none": ("/demo", "none"), "gptq": ("/out/model", "none")}
    if engine.python("-c", READS_GPTQ).split()[-1] == "False":
        with pytest.raises(pytest.fail.Exception, match="no attribute 'cpu_gemm_wna16'"):
            load(engine, runs, {DEMO: "/demo:ro", gptq[0]: "/out:ro"})
        return
    found = load(engine, runs, {DEMO: "/demo:ro", gptq[0]: "/out:ro"})[0]
    assert found["gptq"]["engine_method"] == "auto_gptq"
    assert found["gptq"]["bytes"] < 0.45 * CHECKPOINT_BYTES
    assert 0 < difference(found["none"], found["gptq"]) < 1
    assert found["gptq"]["answer"].startswith("Join one or more ")
