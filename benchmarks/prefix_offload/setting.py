"""What the checks of `identity.py` share: the machine's folder, the time that is left, documents, and an engine."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wide
from engines import Engine
from on_device import windlass

LENGTHS = (256, 768, 1024, 1536)
"""Tokens of a document: whole chunks."""
DOCUMENTS = 12
CONTEXT = 2048
CARD_TOKENS, ALL_TOKENS = 4096, 65_536
HOST_BYTES = 16 << 30
Asked = tuple[dict[str, Any], str]
"""A prompt, and the folder of its adapter."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where, until when, over how many cards, from which trace."""

    work: Path
    end: float
    ranks: int
    trace: Path
    plain: bool = False

    def left_s(self) -> float:
        """Seconds that are left."""
        return self.end - time.monotonic()


def documents(count: int = DOCUMENTS, lengths: tuple[int, ...] = LENGTHS, seed: int = 3) -> list[list[int]]:
    """Random documents, the same ones in every process."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    return [
        [chance.randrange(wide.FIRST, wide.FIRST + wide.WORDS) for _ in range(lengths[at % len(lengths)])]
        for at in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache on the card, and what is behind it."""

    tokens: int = ALL_TOKENS
    host_bytes: int = 0
    layers: int = wide.LAYERS
    connector: dict[str, Any] = field(default_factory=dict)
    in_flight: str = ""


EVERYTHING, SMALL = Cache(), Cache(CARD_TOKENS, HOST_BYTES)


def one_engine(
    setting: Setting, name: str, words: dict[str, Any], cache: Cache, variables: dict[str, str] | None = None
) -> Engine:
    """An engine with a cache for everything and none behind it, or with a small one and host memory."""
    layers = 1 if setting.plain else cache.layers
    size = wide.token_bytes(layers) * cache.tokens // setting.ranks
    options: dict[str, Any] = {
        "model": str(wide.model(setting.work / f"wide-{layers}", layers)), "skip_tokenizer_init": True,
        "enable_prefix_caching": True, "max_model_len": CONTEXT, "max_num_seqs": 16, "gpu_memory_utilization": 0.02,
        "kv_cache_memory_bytes": size, "disable_log_stats": False, "enforce_eager": True, "seed": 1,
        "tensor_parallel_size": setting.ranks, **words,
    }  # fmt: skip
    if cache.host_bytes and not setting.plain:
        options["kv_transfer_config"] = windlass(cache.host_bytes, **cache.connector)
    method = "spawn" if setting.ranks > 1 else "forkserver"
    return Engine(name, options, variables or {}, in_flight="" if setting.plain else cache.in_flight, method=method)
