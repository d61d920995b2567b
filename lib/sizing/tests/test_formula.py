"""The published table to the digit, and properties that our own figure must keep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import formula
from windlass_sizing.placement.formula import Serving
from windlass_sizing.placement.parallel import divides, splits


def a_model(**sizes) -> ModelFacts:
    values = {
        "architecture": "LlamaForCausalLM", "model_type": "llama", "params": 8_000_000_000, "params_how": "given",
        "weights_bytes": None, "stored_dtype": "bfloat16", "quantization": None, "hidden_size": 4096,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 128256, "max_model_len": 131072, "intermediate_size": 14336,
        "embedding_params": 2 * 128256 * 4096, "kv_layers": 32,
    }  # fmt: skip
    return ModelFacts(**{**values, **sizes})


LLAMA_8B = a_model()
QWEN_72B = a_model(
    params=72_000_000_000, hidden_size=8192, num_hidden_layers=80, kv_layers=80, num_attention_heads=64,
    intermediate_size=29568, vocab_size=152064, embedding_params=2 * 152064 * 8192, max_model_len=32768,
)  # fmt: skip
SEED_SIZES = ("hidden_size", "num_hidden_layers", "num_key_value_heads", "num_attention_heads")
TABLE = {
    "Meta-Llama-3.1-8B-Instruct": (LLAMA_8B, 8, 16, 16, "35.56", {24: 2, 40: 1, 48: 1}),
    "Qwen2-72B-Instruct": (QWEN_72B, 72, 144, 10, "171.11", {24: 8, 40: 8, 48: 4}),
}


@pytest.mark.parametrize(("facts", "billions", "weights", "kv", "required", "gpus"), TABLE.values(), ids=TABLE.keys())
def test_the_published_table_is_met_to_the_digit(facts, billions, weights, kv, required, gpus):
    """Weights, KV cache, required memory and the fewest GPUs of each size."""
    sizes = {name: getattr(facts, name) for name in SEED_SIZES}
    need = formula.seed_formula(billions, max_model_len=facts.max_model_len, **sizes)
    assert (need.weights_gib, need.kv_gib) == (weights, kv)
    assert f"{need.required_gib:.2f}" == required
    assert {gib: need.min_gpus(gib) for gib in gpus} == gpus
    assert formula.seed_need(facts, Serving(facts.max_model_len)) == need


@pytest.mark.parametrize(
    ("params", "billions"),
    [(8_030_261_248, 8), (72_706_203_648, 72), (7_615_616_512, 7), (1_999_999_999, 1), (494_032_768, 0.494032768)],
)
def test_the_documents_count_whole_billions(params, billions):
    """8.03 is 8 and 72.7 is 72; a model below one billion keeps its fraction, as nothing would be left of it."""
    assert formula.seed_params_b(params) == billions


def test_no_count_of_gpus_divides_the_heads():
    """More GPUs than heads cannot share them."""
    assert formula.seed_min_gpus(1000, 10, 32) is None


def test_weights_by_method():
    """Online quantization packs the layers and leaves the embeddings; a quantized checkpoint has its real bytes."""
    plain, fp8, nf4 = (formula.weights_gib(LLAMA_8B, Serving(8192, quantization=m)) for m in (None, "fp8", "ifq_nf4"))
    assert plain == pytest.approx(16e9 / 2**30)
    assert plain / 2 < fp8 < plain * 0.6
    assert plain / 4 < nf4 < plain * 0.4
    gptq = replace(LLAMA_8B, quantization="gptq", quantization_bits=4.0, weights_bytes=5 * 2**30)
    assert formula.weights_gib(gptq, Serving(8192)) == 5


def test_a_float32_checkpoint_is_served_in_half_of_its_bytes():
    """What counts is the format that is served, not the one on disk."""
    stored = replace(LLAMA_8B, stored_dtype="float32", weights_bytes=32_000_000_000)
    assert formula.weights_gib(stored, Serving(8192)) == pytest.approx(16e9 / 2**30)
    assert formula.weights_gib(stored, Serving(8192, dtype="auto")) == pytest.approx(16e9 / 2**30)


def test_few_kv_heads_repeat_on_every_rank():
    """Two KV heads over eight ranks take eight heads' room; latent caches always repeat."""
    two_heads = replace(LLAMA_8B, num_key_value_heads=2)
    assert formula.kv_gib(two_heads, Serving(8192, tp=8)) == 4 * formula.kv_gib(two_heads, Serving(8192, tp=2))
    latent = replace(LLAMA_8B, latent_kv_dim=576)
    assert formula.kv_gib(latent, Serving(8192, tp=8)) == 8 * formula.kv_gib(latent, Serving(8192))


def test_sliding_layers_stop_growing():
    """Beyond the window and a step, only the full layers grow."""
    gemma = replace(LLAMA_8B, kv_layers=16, window_layers=16, window=1024)
    long, longer = (formula.kv_gib(gemma, Serving(length)) for length in (65536, 131072))
    assert longer - long == pytest.approx(formula.kv_gib(LLAMA_8B, Serving(65536)) / 2)


def test_the_split_must_suit_heads_and_kv_heads():
    """28 heads with 4 KV heads do not go over 7 ranks, although 7 divides 28; powers of two come first."""
    qwen = replace(LLAMA_8B, num_attention_heads=28, num_key_value_heads=4)
    assert not divides(qwen, 7)
    assert splits(qwen, 28) == [1, 2, 4, 28]
    odd = replace(LLAMA_8B, num_attention_heads=24, num_key_value_heads=8)
    assert splits(odd, 8) == [1, 2, 4, 8]
    assert splits(replace(odd, num_key_value_heads=24), 8) == [1, 2, 4, 8, 3, 6]


def test_the_kv_cache_has_a_format_of_its_own():
    """fp8 halves it, in our figure and in the quick one; the weights stay."""
    plain, packed = Serving(131072), Serving(131072, kv_cache_dtype="fp8_e4m3")
    assert formula.kv_gib(LLAMA_8B, packed) == formula.kv_gib(LLAMA_8B, plain) / 2
    assert formula.seed_need(LLAMA_8B, packed).kv_gib == 8
    assert formula.weights_gib(LLAMA_8B, packed) == formula.weights_gib(LLAMA_8B, plain)


def test_longer_steps_and_more_sequences_take_memory():
    """A step of 128 Ki tokens holds their activations; left alone, a step has at most 8192."""
    free, long = Serving(131072), Serving(131072, step_tokens=131072)
    assert (free.tokens_a_step, Serving(4096).tokens_a_step, Serving(100).tokens_a_step) == (8192, 4096, 2048)
    more = formula.overhead_gib(LLAMA_8B, long) - formula.overhead_gib(LLAMA_8B, free)
    assert more == pytest.approx((131072 - 8192) * (4 * 4096 + 2 * 14336) * 2 / 1024**3)
    fewer = formula.overhead_gib(LLAMA_8B, replace(free, sequences=16))
    assert fewer < formula.overhead_gib(LLAMA_8B, free)


lengths = st.integers(1, 1_000_000)
shares = st.floats(0.1, 0.99)
powers = st.sampled_from([1, 2, 4, 8, 16, 32])


@given(lengths, lengths, shares)
def test_more_context_never_needs_less(one, other, share):
    """Monotone in the context, in our figure and in the quick one."""
    short, long = sorted((one, other))
    ours = [formula.demand(LLAMA_8B, Serving(length, utilization=share)).required_gib for length in (short, long)]
    quick = [formula.seed_demand_gib(LLAMA_8B, Serving(length, utilization=share)) for length in (short, long)]
    assert ours == sorted(ours)
    assert quick == sorted(quick)


@given(lengths, shares, shares)
def test_more_of_each_card_never_needs_larger_cards(length, one, other):
    """Monotone in utilization."""
    low, high = sorted((one, other))
    needs = [formula.demand(QWEN_72B, Serving(length, tp=8, utilization=share)).per_gpu_gib for share in (high, low)]
    assert needs == sorted(needs)


@given(lengths, powers, powers)
def test_more_gpus_never_need_larger_cards(length, one, other):
    """Monotone in GPUs, once there is a second one to talk to."""
    few, many = sorted((max(2, one), max(2, other)))
    needs = [formula.demand(QWEN_72B, Serving(length, tp=tp)).per_gpu_gib for tp in (many, few)]
    assert needs == sorted(needs)


@given(st.floats(0.1, 2000), st.floats(1, 200), st.integers(1, 256))
def test_the_fewest_gpus_hold_it_and_divide_the_heads(need, card, heads):
    """What the quick formula answers is always possible, and one divisor less is not."""
    gpus = formula.seed_min_gpus(need, card, heads)
    if gpus is not None:
        assert heads % gpus == 0
        assert gpus * card >= need or gpus == 1
        smaller = [count for count in range(1, gpus) if heads % count == 0]
        assert all(count * card < need for count in smaller)
