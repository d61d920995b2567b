"""What a draft model on the host's cores takes of a pod, as `windlass run --cpu-draft-worker` runs it. Pure.

The decoder is the lookahead core's own. A contract test holds families, bytes and rows to it.
"""

from __future__ import annotations

from windlass_sizing.model.drafter import Unfit
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import GIB

DECODERS = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Architectures that the decoder knows."""
ROWS_MAX = 64
"""Requests of one engine that have keys and values on the host: a draft for more takes longer than a step. A guess."""
WINDOW = 1024
"""Tokens of each that the decoder sees."""
CORES = 8
"""Cores of each engine that draft where nobody says how many. A guess: 14 were measured (docs/how-to/draft.md)."""
CORES_MAX = 1024
"""More are refused."""
VALUE_BYTES = 2
"""Of an embedding's, a key's and a value's number."""
WEIGHT_BYTES = {8: 1.0, 4: 0.5 + 2 / 32}
"""With 4 bits a group of 32 weights has a scale of two bytes."""


def host_draft_gib(draft: ModelFacts, requests: int, bits: int = 8) -> float:
    """Host memory of one engine's draft model, for so many requests at once and so many bits of a weight."""
    heads, keys = draft.num_attention_heads * draft.head_dim, 2 * draft.num_key_value_heads * draft.head_dim
    layer = draft.hidden_size * (2 * heads + keys + 3 * (draft.intermediate_size or 0))
    tokens = min(WINDOW, draft.max_model_len) * min(requests, ROWS_MAX)
    packed = draft.num_hidden_layers * layer + draft.vocab_size * draft.hidden_size
    plain = draft.vocab_size * draft.hidden_size + draft.num_hidden_layers * keys * tokens
    return (packed * WEIGHT_BYTES[bits] + plain * VALUE_BYTES) / GIB


def unfit(draft: ModelFacts) -> Unfit | None:
    """Why the decoder cannot run this draft model, and what to do; None when it can, as far as the files tell."""
    if draft.architecture not in DECODERS:
        return (
            f"on the host's cores the draft model may be a {', '.join(DECODERS)}, and it is a {draft.architecture}",
            "take another draft model, or let it run on the GPU",
        )
    if draft.quantization:
        return (
            f"on the host's cores the draft model needs plain weights, and these are {draft.quantization}",
            "take the model that it was made from",
        )
    uneven = next((row for row in _divided(draft) if row[1] % row[2]), None)
    if uneven is None:
        return None
    name, size, part = uneven
    return (
        f"on the host's cores the draft model's {name} is a multiple of {part}, and it is {size}",
        "take another draft model, or let it run on the GPU",
    )


def _divided(draft: ModelFacts) -> tuple[tuple[str, int, int], ...]:
    return (
        ("hidden_size", draft.hidden_size, 32),
        ("intermediate_size", draft.intermediate_size or 0, 32),
        ("head_dim", draft.head_dim, 16),
        ("num_attention_heads", draft.num_attention_heads, draft.num_key_value_heads),
    )
