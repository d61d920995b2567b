"""Into how many GPUs a model can be split, and which splits are tried first. Pure arithmetic."""

from __future__ import annotations

from windlass_sizing.facts import ModelFacts


def divides(facts: ModelFacts, tp: int) -> bool:
    """Whether each rank gets as many heads, and KV heads split or repeat evenly (the engine refuses the rest)."""
    if facts.num_attention_heads % tp:
        return False
    if facts.latent_kv_dim:
        return True
    kv_heads = facts.num_key_value_heads
    return kv_heads % tp == 0 or tp % kv_heads == 0


def splits(facts: ModelFacts, most: int) -> list[int]:
    """The possible splits up to `most` GPUs: powers of two first, as links and kernels like them, then the others."""
    possible = [tp for tp in range(1, most + 1) if divides(facts, tp)]
    return sorted(possible, key=lambda tp: (tp & (tp - 1) != 0, tp))
