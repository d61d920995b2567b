"""The keys of ours in the connector's configuration, and the size of a chunk. Pure, standard library only."""

from __future__ import annotations

from collections.abc import Iterable

NOT_LAZY, HIT_COUNT, CARD_LIMIT = "windlass_not_lazy", "windlass_hit_count", "windlass_card_limit"
IN_STEP = "windlass_in_step"
"""Whether a request that is alone is copied inside its step."""
COUNTS = "windlass_counts"
"""The folder of `counts.py`."""
CONNECTOR, CONNECTOR_MODULE = "PrefixOffloadConnector", "windlass.engine.prefix_offload.connector"
SPEC, SPEC_MODULE = "PrefixOffloadSpec", "windlass.engine.prefix_offload.spec"
EVICTION = "arc"
"""Of the engine's policies the one with the most hits on recorded conversations (ADR 80)."""
CHUNK_TOKENS = 256
"""Kept, found and forgotten together. Computing a shorter prefix takes about as long as a load's fixed part."""
NO_LIMIT = -1


def blocks_per_chunk(block_tokens: Iterable[int]) -> int:
    """Blocks of the KV cache in one chunk, from the tokens of each group's block."""
    return max(1, CHUNK_TOKENS // max(block_tokens, default=CHUNK_TOKENS))


def beyond(cached: list[int], limit: int) -> set[int]:
    """Of free blocks that still hold a prefix, oldest first, those beyond the limit."""
    return set() if limit == NO_LIMIT or len(cached) <= limit else set(cached[: len(cached) - limit])
