"""Our quantization methods in real vLLM on a CPU: loading, what a layer holds, precision, and what is refused."""

import statistics
from pathlib import Path

import pytest
from windlass_sizing.quantization import methods

SCRIPT = "/repo/tests/engine/quantization/load_quantized.py"
METHODS = ("none", "fp8", "ifq", "ifq_nf4", "smoothquant", "auto")
SPOILT = ("damage", "foreign")
DEMO = Path(__file__).parents[3] / "models/demo"
CHECKPOINT_BYTES = (DEMO / "model.safetensors").stat().st_size
"""What the demo's weights take as they are. A loaded engine does not say: on some CPUs it packs them out of sight."""
BITS = {"ifq": 8, "ifq_nf4": 4}
pytestmark = pytest.mark.timeout(1200)  # of many loads in one process, on cores that others use too


@pytest.fixture(scope="module")
def smooth(engine, tmp_path_factory):
    """The demo model with smoothquant's file, made by the command after it was killed once; and what it printed."""
    out = tmp_path_factory.mktemp("smooth")
    printed = engine.result(
        "/repo/tests/engine/quantization/make_smoothquant.py", "/model", mounts={DEMO: "/demo:ro", out: "/model"}
    )
    return out, printed


@pytest.fixture(scope="module")
def gate(engine, smooth, tiny, tmp_path_factory):
    """What the gate loads, in one process; the demo model is a trained bf16 checkpoint with a tied head."""
    kept = tmp_path_factory.mktemp("kept")
    keeping = ("/model", "ifq", "float16", "WINDLASS_QUANTIZED_CACHE=/kept")
    runs = {method: ("/model", method) for method in METHODS}
    runs |= {"first": keeping, "second": keeping} | {how: (*keeping, f"spoil={how}") for how in SPOILT}
    runs |= {"experts": ("/tiny/moe", "ifq"), "bfloat16": ("/tiny/gqa", "ifq_nf4", "bfloat16")}
    return load(engine, runs, {smooth[0]: "/model:ro", tiny: "/tiny:ro", kept: "/kept"})


@pytest.fixture(scope="module")
def loaded(gate):
    """By name, what each run found."""
    return gate[0]


def load(engine, runs, mounts, timeout_s=1100):
    """Run after run in one process; what each found by its name, and the methods that the engine knows."""
    words = [word for run in runs.values() for word in ("and", *run)]
    found = engine.result(SCRIPT, *words[1:], mounts=mounts, timeout_s=timeout_s)
    return dict(zip(runs, found["runs"], strict=True)), found["methods"]


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
    assert loaded[method]["bytes"] < CHECKPOINT_BYTES


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


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers(loaded, method):
    """The start command's own words reach the engine, and the answer begins as it was trained."""
    assert loaded[method]["answer"].startswith("Join one or more path segments intelligently.")
    assert loaded[method]["dtype"] == "torch.float16"
    names = {"none": None, "fp8": "windlass_fp8", "auto": "smoothquant"}
    assert loaded[method]["engine_method"] == names.get(method, method)


def test_smoothquant_s_file_is_made_after_a_kill(smooth):
    """What was done is not done again, and the search never chooses what is worse than nothing."""
    _, printed = smooth
    assert printed["killed"] == -9
    assert printed["kept_after_kill"]
    assert printed["kept_unchanged"]
    assert len(printed["groups"]) == 8 * 4
    assert all(group["error"] <= group["plain"] for group in printed["groups"].values())
    assert sum(group["error"] < 0.7 * group["plain"] for group in printed["groups"].values()) >= 8


def test_kept_weights_are_read_again_and_others_are_not(loaded):
    """The second start holds the same bits; a damaged file, or one of another model, is made again."""
    assert [loaded[name]["was_kept"] for name in ("first", "second", *SPOILT)] == [False, True, False, False]
    for name in ("second", *SPOILT):
        assert loaded[name]["layers"] == loaded["ifq"]["layers"]
        assert loaded[name]["logprobs"] == loaded["ifq"]["logprobs"]


def test_the_engine_s_own_names_are_known(gate):
    """Every method of the installed engine has a row; `fp8` is ours, under another name there."""
    assert set(gate[1]) - {"windlass_fp8"} <= set(methods.METHODS)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("experts", "--quantization ifq does not quantize mixture-of-experts layers"),
        ("bfloat16", "--quantization ifq_nf4 runs with float16 only, not bfloat16"),
    ],
)
def test_what_cannot_be_is_refused(loaded, run, words):
    assert words in loaded[run]["refused"]


def test_norms_and_gated_silus_go_into_products(engine):
    """In graphs as torch.compile makes them, with the same results; what others read too, or another order, stays."""
    assert engine.result("/repo/tests/engine/quantization/fuse_exactly.py")["wrong"] == []


def test_the_quantizers_are_exact(engine):
    """Against a search in float64 over random shapes and values, with its own seed; and packing is undone exactly."""
    assert engine.result("/repo/tests/engine/quantization/quantize_exactly.py", "40")["wrong"] == []
