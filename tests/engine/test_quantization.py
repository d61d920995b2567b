"""Our quantization methods in real vLLM on a CPU: loading, what a layer holds, precision, and what is refused."""

import statistics
from pathlib import Path

import pytest

SCRIPT = "/repo/tests/engine/load_quantized.py"
DEMO = Path(__file__).parents[2] / "models/demo"
BITS = {"ifq": 8, "ifq_nf4": 4}


@pytest.fixture(scope="module")
def tiny(engine, tmp_path_factory):
    out = tmp_path_factory.mktemp("tiny")
    engine.python("/repo/models/tiny/make.py", "/out", mounts={out: "/out"})
    return out


@pytest.fixture(scope="module")
def loaded(engine):
    """The demo model, a trained bf16 checkpoint with a tied head, by method."""
    return {
        method: engine.result(SCRIPT, "/model", method, mounts={DEMO: "/model:ro"})
        for method in ("none", "ifq", "ifq_nf4")
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
    int8, nf4 = (difference(loaded["none"], loaded[method]) for method in ("ifq", "ifq_nf4"))
    assert 0 < int8 < 0.1 < nf4 < 1


@pytest.mark.long
def test_an_untied_head_is_int8_and_can_be_left_alone(engine, tiny):
    found = engine.result(SCRIPT, "/models/untied", "ifq_nf4", mounts={tiny: "/models:ro"})
    assert found["layers"]["lm_head"]["bits"] == 8
    left = engine.result(SCRIPT, "/models/untied", "ifq_nf4", "float16", "0", mounts={tiny: "/models:ro"})
    assert "lm_head" not in left["layers"]


@pytest.mark.long
def test_a_bin_checkpoint_is_quantized_as_well(engine, tiny):
    assert engine.result(SCRIPT, "/models/bin", "ifq_nf4", mounts={tiny: "/models:ro"})["layers"]


@pytest.mark.parametrize(
    ("kind", "method", "dtype", "words"),
    [
        ("moe", "ifq", "float16", "does not quantize mixture-of-experts layers"),
        ("gqa", "ifq_nf4", "bfloat16", "bfloat16 is not supported for quantization method ifq_nf4"),
    ],
)
def test_what_cannot_be_is_refused(engine, tiny, kind, method, dtype, words):
    found = engine.result(SCRIPT, f"/models/{kind}", method, dtype, mounts={tiny: "/models:ro"})
    assert words in found["refused"]


def test_the_quantizers_are_exact(engine):
    """Against a search in float64 over random shapes and values, with its own seed; and packing is undone exactly."""
    assert engine.result("/repo/tests/engine/quantize_exactly.py", "40")["wrong"] == []
