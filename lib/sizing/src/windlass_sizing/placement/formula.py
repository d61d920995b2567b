"""The memory formula: the documents' rule of thumb to the digit, and our own figure beside it.

The rule of thumb (`seed_…`) is what the documents print and users compare with. Our figure (`demand`) takes the real
bytes, the head size, KV heads that repeat on ranks, windows, and what each GPU needs beside weights and cache.
Numbers in, numbers out; no I/O.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from windlass_sizing.model.drafter import MEDUSA
from windlass_sizing.model.dtypes import dtype_bytes
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.quantization.methods import row_of

GIB = 1024**3
DEFAULT_MAX_MODEL_LEN = 8192
DEFAULT_UTILIZATION = 0.9

# What a GPU holds beside weights and KV cache.
RUNTIME_GIB = 0.6  # CUDA context, kernels, allocator slack
COMMUNICATION_GIB = 0.4  # NCCL and custom all-reduce buffers, when TP > 1
GRAPHS_GIB = 0.7  # CUDA graphs, unless eager
STEP_TOKENS_MIN = 2048
STEP_TOKENS_MAX = 8192  # longer prompts are prefilled in chunks of this many tokens
GPUS_MAX = 1024  # of one replica: 32 nodes of 32 cards, more than any engine serves one model on
ROUNDING = 1e-9  # of one request: a card that has just what one needs holds one
SAMPLED_SEQUENCES = 256  # rows of logits in one step, in float32, copied once
READ_FROM_FILE = ("smoothquant", "auto")  # methods that take smoothquant's file where it lies in the directory


@dataclass(frozen=True, slots=True)
class SeedNeed:
    """The rule of thumb's answer."""

    weights_gib: float
    kv_gib: float
    required_gib: float
    heads: int

    def min_gpus(self, gpu_gib: float) -> int | None:
        """The fewest GPUs of this size that hold it and divide the heads; None when no count does."""
        return seed_min_gpus(self.required_gib, gpu_gib, self.heads)


def seed_formula(  # noqa: PLR0913  the formula's own terms, by the names that config.json gives them
    params_b: float,
    *,
    hidden_size: int,
    num_hidden_layers: int,
    num_key_value_heads: int,
    num_attention_heads: int,
    max_model_len: int,
    weight_bytes: float = 2,
    kv_bytes: float = 2,
    gpu_memory_utilization: float = DEFAULT_UTILIZATION,
) -> SeedNeed:
    """The documents' rule of thumb: `params_b` in billions, the result in GiB as the documents mean it."""
    weights = params_b * weight_bytes
    share = num_key_value_heads / num_attention_heads
    cache = hidden_size * num_hidden_layers * share * max_model_len * kv_bytes * 2 / GIB
    return SeedNeed(weights, cache, (weights + cache) / gpu_memory_utilization, num_attention_heads)


def seed_params_b(params: int) -> float:
    """Billions of parameters as the documents count: rounded down; a model below one billion as it is."""
    return params // 10**9 or params / 1e9


def seed_min_gpus(required_gib: float, gpu_gib: float, heads: int) -> int | None:
    """The fewest GPUs that hold it and divide the heads; None when no count up to GPUS_MAX does."""
    fewest = max(1, math.ceil(required_gib / gpu_gib))
    return next((gpus for gpus in range(fewest, min(heads, GPUS_MAX) + 1) if heads % gpus == 0), None)


@dataclass(frozen=True, slots=True)
class Serving:
    """How the model would be run."""

    max_model_len: int
    tp: int = 1
    pp: int = 1
    dtype: str = "float16"
    quantization: str | None = None
    utilization: float = DEFAULT_UTILIZATION
    enforce_eager: bool = False
    kv_cache_dtype: str = "auto"  # of the KV cache; auto: as the checkpoint asks, else as `dtype`
    step_tokens: int | None = None  # the most tokens of one step; None: the context, in chunks of STEP_TOKENS_MAX
    sequences: int = SAMPLED_SEQUENCES  # the most of one step

    @property
    def tokens_a_step(self) -> int:
        """The most tokens that one step computes."""
        return self.step_tokens or min(max(self.max_model_len, STEP_TOKENS_MIN), STEP_TOKENS_MAX)


@dataclass(frozen=True, slots=True)
class Demand:
    """Our figure: what a replica needs, in GiB."""

    weights_gib: float
    kv_gib: float  # one full context, on all ranks together
    overhead_gib: float  # a GPU
    per_gpu_gib: float  # memory that each card must have
    required_gib: float  # all cards together


def weight_bytes_of(facts: ModelFacts, quantization: str | None, dtype: str) -> float:
    """Bytes a weight by the rule of thumb's table: 2 for 16-bit, 1 for fp8/int8, 0.5 for nf4/int4."""
    if facts.quantization and facts.quantization_bits:
        return facts.quantization_bits / 8
    row = row_of(quantization)
    return row.nominal_bytes if row and row.nominal_bytes else serving_dtype_bytes(facts, dtype)


def serving_dtype_bytes(facts: ModelFacts, dtype: str) -> float:
    """Bytes of a value while serving; `auto` is the checkpoint's own format, float32 served as float16."""
    if dtype != "auto":
        return dtype_bytes(dtype)
    stored = facts.stored_dtype or "float16"
    return 2 if stored == "float32" else dtype_bytes(stored)


def kv_value_bytes(facts: ModelFacts, serving: Serving) -> float:
    """Bytes of a value of the KV cache."""
    if serving.kv_cache_dtype.startswith("fp8"):
        return 1
    if serving.kv_cache_dtype == "auto" and facts.kv_bits:
        return facts.kv_bits / 8
    return serving_dtype_bytes(facts, serving.dtype)


def weights_gib(facts: ModelFacts, serving: Serving) -> float:
    """Weights as they lie on the GPUs; online quantization leaves embeddings, routers and norms alone."""
    own = facts.weights_bytes if facts.weights_bytes is not None else facts.counted_bytes
    if facts.quantization is not None and own is not None:
        return own / GIB
    plain = serving_dtype_bytes(facts, serving.dtype)
    if facts.smoothquant_bytes and serving.quantization in READ_FROM_FILE and plain == _stored_bytes(facts):
        return facts.smoothquant_bytes / GIB
    row = row_of(serving.quantization)
    packed = row.real_bytes if row and row.real_bytes else plain
    if facts.quantization is not None and facts.quantization_bits:
        packed = facts.quantization_bits / 8
    if packed == plain and facts.weights_bytes is not None and plain == _stored_bytes(facts):
        return facts.weights_bytes / GIB
    return _packed_bytes(facts, packed, (row.head_bytes if row else None) or plain, plain) / GIB


def _packed_bytes(facts: ModelFacts, packed: float, head: float, plain: float) -> float:
    """Linear layers in the method's bytes, the output head in its own, the rest in the format that is served."""
    linear = facts.params - facts.embedding_params if facts.linear_params is None else facts.linear_params
    linear = max(0, min(linear, facts.params))
    heads = min(facts.head_params, facts.params - linear)
    return linear * packed + heads * head + (facts.params - linear - heads) * plain


def _stored_bytes(facts: ModelFacts) -> float | None:
    return dtype_bytes(facts.stored_dtype) if facts.stored_dtype else None


def kv_gib(facts: ModelFacts, serving: Serving) -> float:
    """The KV cache of one full context over all ranks: heads fewer than ranks repeat, latent caches always do."""
    return kv_gib_per_gpu(facts, serving) * serving.tp


def kv_gib_per_gpu(facts: ModelFacts, serving: Serving) -> float:
    """The share of one rank."""
    value_bytes = kv_value_bytes(facts, serving)
    full = _kv_values(facts, facts.full_kv_heads, facts.full_kv_dim, serving.tp)
    windowed = _kv_values(facts, facts.window_kv_heads, facts.window_kv_dim, serving.tp)
    length = serving.max_model_len
    # A sliding layer keeps its window and the tokens of the step that is being computed.
    slid = min(length, (facts.window or length) + min(length, serving.tokens_a_step))
    values = facts.kv_layers * length * full + facts.window_layers * slid * windowed
    drafting = kv_gib_per_gpu(facts.draft, serving) if facts.draft else 0
    return (values * value_bytes + facts.state_bytes / serving.tp) / GIB + drafting


def _kv_values(facts: ModelFacts, heads: int | None, values: int | None, tp: int) -> float:
    """Values that one token leaves in one layer on one rank."""
    if facts.latent_kv_dim:
        return float(facts.latent_kv_dim)
    return float((values or 2 * facts.head_dim) * math.ceil((heads or facts.num_key_value_heads) / tp))


def activations_gib(facts: ModelFacts, serving: Serving) -> float:
    """The largest step's activations and logits, on one rank."""
    inner = 2 * (facts.intermediate_size or 4 * facts.hidden_size) / serving.tp
    activations = serving.tokens_a_step * (4 * facts.hidden_size + inner) * 2
    logits = serving.sequences * facts.vocab_size * 4 * 2
    return (activations + logits) / GIB


def adapters_gib(facts: ModelFacts, serving: Serving) -> float:
    """The places of LoRA adapters, on one rank: as many and as wide as the engine makes them, full or not."""
    rows = (facts.lora_slots or 0) * (facts.lora_rank or 0)
    values = rows * ((facts.lora_whole or 0) + (facts.lora_split or 0) / serving.tp) / serving.pp
    return values * serving_dtype_bytes(facts, serving.dtype) / GIB


def draft_gib(facts: ModelFacts, serving: Serving) -> float:
    """The weights of what drafts, on one rank; no method packs them. Its KV cache is part of the cache's.

    The ranks share them, but for the blocks of Medusa heads: the engine keeps those whole on every rank.
    """
    draft = facts.draft
    if draft is None:
        return 0.0
    weights = weights_gib(draft, replace(serving, quantization=None))
    whole = weights * (draft.linear_params or 0) / draft.params if draft.drafts_by == MEDUSA else 0.0
    return whole + (weights - whole) / serving.tp


def beside_gib(facts: ModelFacts, serving: Serving) -> float:
    """What is served beside the model, on one rank."""
    return adapters_gib(facts, serving) + draft_gib(facts, serving)


def overhead_gib(facts: ModelFacts, serving: Serving) -> float:
    """What each GPU needs beside weights and cache: runtime, communication, graphs, activations, adapters, a draft."""
    communication = COMMUNICATION_GIB if serving.tp * serving.pp > 1 else 0
    graphs = 0 if serving.enforce_eager else GRAPHS_GIB
    return RUNTIME_GIB + communication + graphs + activations_gib(facts, serving) + beside_gib(facts, serving)


def demand(facts: ModelFacts, serving: Serving) -> Demand:
    """Our figure for this way of running the model on GPUs."""
    weights, beside = weights_gib(facts, serving), overhead_gib(facts, serving)
    cache, gpus = kv_gib_per_gpu(facts, serving), serving.tp * serving.pp
    per_gpu = (weights / gpus + cache / serving.pp + beside) / serving.utilization
    return Demand(weights, cache * serving.tp, beside, per_gpu, per_gpu * gpus)


def requests_at_once(facts: ModelFacts, serving: Serving, card_gib: float) -> int:
    """How many requests of the whole context the KV cache of cards of this size holds, by our figure."""
    gpus = serving.tp * serving.pp
    left = card_gib * serving.utilization - weights_gib(facts, serving) / gpus - overhead_gib(facts, serving)
    cache = kv_gib_per_gpu(facts, serving) / serving.pp
    return min(serving.sequences, max(0, math.floor(left / cache + ROUNDING))) if cache else serving.sequences


def cpu_demand(facts: ModelFacts, serving: Serving) -> Demand:
    """Our figure for the CPU: no card, no share of one, no graphs."""
    weights, cache = weights_gib(facts, serving), kv_gib(facts, serving)
    beside = activations_gib(facts, serving) + beside_gib(facts, serving)
    return Demand(weights, cache, beside, 0, weights + cache + beside)


def seed_need(facts: ModelFacts, serving: Serving) -> SeedNeed:
    """The rule of thumb for this way of running the model."""
    return seed_formula(
        seed_params_b(facts.params),
        hidden_size=facts.hidden_size,
        num_hidden_layers=facts.num_hidden_layers,
        num_key_value_heads=facts.num_key_value_heads,
        num_attention_heads=facts.num_attention_heads,
        max_model_len=serving.max_model_len,
        weight_bytes=weight_bytes_of(facts, serving.quantization, serving.dtype),
        kv_bytes=kv_value_bytes(facts, serving),
        gpu_memory_utilization=serving.utilization,
    )


def seed_demand_gib(facts: ModelFacts, serving: Serving) -> float:
    """The rule of thumb's required memory for this way of running the model."""
    return seed_need(facts, serving).required_gib
