"""The room for adapters: as vLLM 0.32 allocates it, layer by layer, and as the memory formula counts it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_sizing.model import lora
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement.formula import GIB, Serving, adapters_gib, demand, draft_gib, kv_gib, requests_at_once

QWEN = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA = {**QWEN, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
MOE = {**QWEN, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 8,
       "moe_intermediate_size": 512, "head_dim": 128, "decoder_sparse_step": 1, "mlp_only_layers": []}  # fmt: skip
PLAIN = from_config(QWEN)
SERVED = replace(
    PLAIN,
    adapters=5,
    lora_slots=4,
    lora_rank=16,
    **dict(zip(("lora_whole", "lora_split"), (1_000_000, 2_000_000), strict=True)),
)


def test_the_layers_of_a_qwen2():
    """qkv and gate-up take their input once for each fused matrix; o and down are split by their input."""
    qkv, o = (3 * 3584, 28 * 128 + 2 * 4 * 128), (3584, 28 * 128)
    gate_up, down = (2 * 3584, 2 * 18944), (3584, 18944)
    whole, split = (sum(one[side] for one in (qkv, o, gate_up, down)) * 28 for side in (0, 1))
    assert lora.width_of(QWEN) == lora.Width(whole, split)


def test_embedding_and_head_count_where_the_architecture_offers_them():
    """A of the embedding and B of the head have a row for each token, on every rank."""
    more = lora.width_of(LLAMA).whole - lora.width_of(QWEN).whole
    assert more == 2 * (152064 + 3584)


def test_every_expert_has_its_own_rows():
    """Gate, up and down of eight experts, and the router."""
    layer = lora.Width((3 * 3584) * 8 + 3584 + 8, 3 * 512 * 8)
    dense = lora.Width(3 * 3584, 3 * 18944)
    found, plain = lora.width_of(MOE), lora.width_of({**MOE, "num_experts": 0})
    assert (found.whole - plain.whole, found.split - plain.split) == (
        28 * (layer.whole - dense.whole), 28 * (layer.split - dense.split)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ranks", "expected"), [([], (0, 0)), ([8], (1, 8)), ([4, 20], (2, 32)), ([8] * 9, (4, 8))], ids=str
)
def test_places(ranks, expected):
    """Four at most, all of the widest rank, rounded up to one that the engine takes."""
    places = lora.slots(ranks)
    assert (places.count, places.rank) == expected


def test_the_formula_counts_the_places_on_each_rank():
    """4 places of rank 16 in float16: 64 rows of what is whole and of this rank's share."""
    one, two = Serving(4096), Serving(4096, tp=2)
    assert adapters_gib(SERVED, one) * GIB == pytest.approx(64 * 3_000_000 * 2)
    assert adapters_gib(SERVED, two) * GIB == pytest.approx(64 * 2_000_000 * 2)
    more = demand(SERVED, one).per_gpu_gib - demand(PLAIN, one).per_gpu_gib
    assert more == pytest.approx(adapters_gib(SERVED, one) / one.utilization)


def test_a_draft_model_costs_its_weights_and_its_cache():
    """Weights on each rank's share, unpacked by the method; fewer requests fit."""
    draft = from_config({**QWEN, "num_hidden_layers": 4})
    drafted, serving = replace(PLAIN, draft=draft), Serving(4096, tp=2, quantization="fp8")
    assert draft_gib(drafted, serving) == pytest.approx(draft.params * 2 / 2 / GIB)
    assert kv_gib(drafted, serving) == pytest.approx(kv_gib(PLAIN, serving) * 32 / 28)
    assert demand(drafted, serving).per_gpu_gib > demand(PLAIN, serving).per_gpu_gib
    assert requests_at_once(drafted, serving, 16) < requests_at_once(PLAIN, serving, 16)
