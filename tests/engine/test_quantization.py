"""Our quantization methods in real vLLM on a CPU: loading, what a layer holds, precision, and what is refused."""

import statistics
from pathlib import Path

import pytest
from windlass.quantization.methods import ENGINES_OWN

SCRIPT = "/repo/tests/engine/load_quantized.py"
DEMO = Path(__file__).parents[2] / "models/demo"
BITS = {"ifq": 8, "ifq_nf4": 4}


@pytest.fixture(scope="module")
def tiny(engine, tmp_path_factory):
    out = tmp_path_factory.mktemp("tiny")
    engine.python("/repo/models/tiny/make.py", "/out", mounts={out: "/out"})
    return out


@pytest.fixture(scope="module")
def smooth(engine, tmp_path_factory):
    """The demo model with smoothquant's file, made by the command after it was killed once; and what it printed."""
    out = tmp_path_factory.mktemp("smooth")
    printed = engine.result(
        "/repo/tests/engine/make_smoothquant.py", "/model", mounts={DEMO: "/demo:ro", out: "/model"}
    )
    return out, printed


@pytest.fixture(scope="module")
def loaded(engine, smooth):
    """The demo model, a trained bf16 checkpoint with a tied head, by method."""
    folder, _ = smooth
    return {
        method: engine.result(SCRIPT, "/model", method, mounts={folder: "/model:ro"})
        for method in ("none", "fp8", "ifq", "ifq_nf4", "smoothquant", "auto")
    }


def difference(one, other):
    pairs = zip(one["logprobs"], other["logprobs"], strict=True)
    return statistics.fmean(abs(a - b) for a, b in pairs)


@pytest.mark.parametrize("method", BITS)
def test_every_linear_layer_holds_packed_weights_only(loaded, method):
    layers = loaded[method]["layers"]
    assert len(layers) == 8 * 4
    for layer in layers.values():
        weights = layer["rows"] * layer["columns"]
        scales = {8: 4 * layer["rows"], 4: 2 * weights // 64}[BITS[method]]
        assert layer["bytes"] == weights * BITS[method] // 8 + scales
        assert "weight" not in layer["parameters"]
    assert loaded[method]["bytes"] < loaded["none"]["bytes"]


def test_all_sixteen_codes_are_used_and_the_codebook_is_nf4(loaded):
    found = loaded["ifq_nf4"]
    assert all(layer["codes"] == list(range(16)) for layer in found["layers"].values())
    assert found["codebook"][:2] == pytest.approx([-1.0, -0.6961928], abs=3e-4)


def test_precision_falls_in_the_order_of_the_bits(loaded):
    """Weights in 8 bits, then activations in 8 bits too, then weights in 4.

    Which of the two in the middle is nearer depends on the text in a prompt as short as this one; the precision table
    of benchmarks/quantization tells them apart on 49,056 tokens.
    """
    methods = ("ifq", "smoothquant", "fp8", "ifq_nf4")
    found = {method: difference(loaded["none"], loaded[method]) for method in methods}
    middle = sorted((found["smoothquant"], found["fp8"]))
    assert 0 < found["ifq"] < middle[0] <= middle[1] < found["ifq_nf4"] < 1, found
    assert found["ifq"] < 0.1


@pytest.mark.parametrize("method", ["none", "fp8", "ifq", "ifq_nf4", "smoothquant", "auto"])
def test_every_method_answers(loaded, method):
    """The start command's own words reach the engine, and the answer begins as it was trained."""
    assert loaded[method]["answer"].startswith("Join one or more path segments intelligently.")
    assert loaded[method]["dtype"] == "torch.float16"
    names = {"none": None, "fp8": "fp8_per_channel", "auto": "smoothquant"}
    assert loaded[method]["engine_method"] == names.get(method, method)


@pytest.mark.long
@pytest.mark.parametrize("method", ["fp8", "ifq", "ifq_nf4"])
def test_a_float16_checkpoint_gives_the_same(engine, loaded, method):
    """bfloat16 fits into float16 where the demo's weights lie, so that what is held is the same to the bit."""
    found = engine.result(SCRIPT, "/model", method, "float16", "as=float16", mounts={DEMO: "/model:ro"})
    assert found["answer"] == loaded[method]["answer"]
    digests = [{name: layer["digest"] for name, layer in one["layers"].items()} for one in (found, loaded[method])]
    assert digests[0] == digests[1]


def test_smoothquant_s_file_is_made_after_a_kill(smooth):
    """What was done is not done again, and the search never chooses what is worse than nothing."""
    _, printed = smooth
    assert printed["killed"] == -9
    assert printed["kept_after_kill"]
    assert printed["kept_unchanged"]
    assert len(printed["groups"]) == 8 * 4
    assert all(group["error"] <= group["plain"] for group in printed["groups"].values())
    assert sum(group["error"] < 0.7 * group["plain"] for group in printed["groups"].values()) >= 8


def test_kept_weights_are_read_again_and_damage_is_not(engine, tmp_path):
    """The second start reads the small file and holds the same bits; a damaged one is made again."""
    words = ("/model", "ifq_nf4", "float16", "WINDLASS_QUANTIZED_CACHE=/kept")
    mounts = {DEMO: "/model:ro", tmp_path: "/kept"}
    first = engine.result(SCRIPT, *words, mounts=mounts)
    (file,) = tmp_path.glob("*.safetensors")
    assert file.stat().st_size < 0.5 * (DEMO / "model.safetensors").stat().st_size
    second = engine.result(SCRIPT, *words, mounts=mounts)
    with file.open("r+b") as damaged:
        damaged.seek(-100, 2)
        damaged.write(b"damage")
    third = engine.result(SCRIPT, *words, mounts=mounts)
    assert [first["was_kept"], second["was_kept"], third["was_kept"]] == [False, True, False]
    for other in (second, third):
        assert other["layers"] == first["layers"]
        assert other["logprobs"] == first["logprobs"]


@pytest.mark.long
@pytest.mark.parametrize("method", ["ifq", "ifq_nf4"])
def test_two_ranks_hold_what_one_holds(engine, loaded, method):
    """Each quantizes its own rows with the scales of the whole; the answer stays."""
    words = (method, "float16", "tp=2", "VLLM_CPU_OMP_THREADS_BIND=0|1")
    found = engine.result(SCRIPT, "/model", *words, mounts={DEMO: "/model:ro"})
    assert len(found["ranks"]) == 2
    for name, layer in found["layers"].items():
        whole = loaded[method]["layers"][name]
        across = name.endswith(("o_proj", "down_proj"))
        assert (layer["rows"], layer["columns"]) == (whole["rows"] // (2 - across), whole["columns"] // (1 + across))
        if not across:
            assert layer["scales"] == whole["scales"]  # of the first rows
    assert difference(found, loaded[method]) < 0.02


@pytest.mark.long
@pytest.mark.parametrize("method", ["ifq", "ifq_nf4"])
def test_an_adapter_on_top(engine, smooth, loaded, method, tmp_path):
    """A LoRA adapter moves a quantized base as it moves the plain one."""
    engine.python(
        "/repo/models/tiny/make.py", "/out", "lora", "--base", "/model", mounts={tmp_path: "/out", DEMO: "/model:ro"}
    )
    mounts = {smooth[0]: "/model:ro", tmp_path / "lora": "/lora:ro"}
    plain, found = (
        engine.result(SCRIPT, "/model", name, "float16", "adapter=/lora", mounts=mounts) for name in ("none", method)
    )
    assert difference(plain, loaded["none"]) > 3 * difference(plain, found)


def test_the_engine_s_own_names_are_known(engine):
    """Every method of the installed engine passes through."""
    program = "import json; from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS as names"
    listed = engine.result("-c", f"{program}; print('RESULT', json.dumps([*names]))")
    assert set(listed) - set(ENGINES_OWN) <= {"fp8", "ifq", "ifq_nf4", "smoothquant"}


@pytest.mark.long
def test_an_untied_head_is_int8_and_can_be_left_alone(engine, tiny):
    found = engine.result(SCRIPT, "/models/untied", "ifq_nf4", mounts={tiny: "/models:ro"})
    assert found["layers"]["lm_head"]["bits"] == 8
    words = ("/models/untied", "ifq_nf4", "float16", "VLLM_ALLOW_QUANT_LM_HEAD=0")
    left = engine.result(SCRIPT, *words, mounts={tiny: "/models:ro"})
    assert "lm_head" not in left["layers"]


@pytest.mark.long
def test_a_bin_checkpoint_is_quantized_as_well(engine, tiny):
    assert engine.result(SCRIPT, "/models/bin", "ifq_nf4", mounts={tiny: "/models:ro"})["layers"]


@pytest.mark.parametrize(
    ("kind", "method", "dtype", "words"),
    [
        ("moe", "ifq", "float16", "does not quantize mixture-of-experts layers"),
        ("gqa", "ifq_nf4", "bfloat16", "--quantization ifq_nf4 runs with float16 only, not bfloat16"),
    ],
)
def test_what_cannot_be_is_refused(engine, tiny, kind, method, dtype, words):
    found = engine.result(SCRIPT, f"/models/{kind}", method, dtype, mounts={tiny: "/models:ro"})
    assert words in found["refused"]


def test_the_quantizers_are_exact(engine):
    """Against a search in float64 over random shapes and values, with its own seed; and packing is undone exactly."""
    assert engine.result("/repo/tests/engine/quantize_exactly.py", "40")["wrong"] == []
