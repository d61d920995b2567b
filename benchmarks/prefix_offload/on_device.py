"""On a GPU: what a prefix in host memory costs to bring back, and what keeping it costs those who never hit.

    python on_device.py OUT.jsonl [--seconds 400] [--arms plain,windlass,native,simple] [--prefix 10000]

One engine for each arm, side by side on one card: Llama-3.1-8B's shape, dummy weights, a KV cache of 40,000 tokens and
16 GiB of host memory. The arms take turns, one measurement at a time, so that each pair meets the same machine.

- `hit`: one token after a prefix of 10,000 tokens. Eight prefixes go round, so the KV cache has always evicted the one
  that is asked for: `plain` computes it again, the other arms load it.
- `miss`: ms a token of 1, 10 and 64 requests whose prompts occur once.
- `beside`: ms a token of 63 requests while two such prefixes a second are brought back.
- `bus`: the same bytes by one pinned copy, and one step of one token.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from engines import Engine

LAYERS, KV_HEADS, HEAD, VOCABULARY = 32, 8, 128, 128256
SHAPE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": LAYERS,
    "num_attention_heads": 32, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": 14336,
    "vocab_size": VOCABULARY, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 128000,
    "eos_token_id": 128001,
}  # fmt: skip
TOKEN_BYTES = LAYERS * KV_HEADS * HEAD * 2 * 2
CARD_TOKENS, HOST_BYTES = 40_000, 16 << 30
PREFIXES, ANSWER, CONTEXT = 8, 64, 12_288
PACKED = {"VLLM_KV_CACHE_LAYOUT": "BLHNC"}


def connector(**extra: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the connector takes
    """vLLM's configuration of its offloading connector."""
    extra = {"cpu_bytes_to_use": HOST_BYTES, **extra}
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


def windlass(**extra: Any) -> dict[str, Any]:  # noqa: ANN401
    """What `windlass run --enable-prefix-cache-offload` gives the engine."""
    ours = {
        "spec_name": "PrefixOffloadSpec", "spec_module_path": "windlass.prefix_offload.spec", "eviction_policy": "arc",
        "store_threshold": 1, "offload_prompt_only": True, "cpu_bytes_to_use": HOST_BYTES, **extra,
    }  # fmt: skip
    return {
        "kv_connector": "PrefixOffloadConnector",
        "kv_connector_module_path": "windlass.prefix_offload.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": ours,
    }


ARMS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "plain": ({}, {}),
    "windlass": ({"kv_transfer_config": windlass()}, {}),
    "plain-packed": ({}, PACKED),
    "native": ({"kv_transfer_config": connector()}, {}),
    "packed": ({"kv_transfer_config": connector()}, PACKED),
    "packed-256": ({"kv_transfer_config": connector(blocks_per_chunk=16)}, PACKED),
    "simple": (
        {
            "kv_transfer_config": {
                "kv_connector": "SimpleCPUOffloadConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"cpu_bytes_to_use": HOST_BYTES, "lazy_offload": True},
            }
        },
        {},
    ),
}


def main() -> None:
    """Measure in turns until the time is over; a JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--arms", default="plain,windlass,native,simple")
    parser.add_argument("--prefix", type=int, default=10_000)
    parser.add_argument("--model", type=Path, default=Path(".cache/llama-3.1-8b-shape"))
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    engines = started(asked.arms.split(","), asked.model)
    try:
        with asked.out.open("a") as out:
            for row in measured(engines, asked.prefix, end):
                out.write(json.dumps(row) + "\n")
                out.flush()
    finally:
        for engine in engines.values():
            engine.end()
    print(table(asked.out), flush=True)


def started(names: list[str], model: Path) -> dict[str, Engine]:
    """Every arm, loaded; those that cannot start are left out, and said."""
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps(SHAPE))
    options = {
        "model": str(model), "load_format": "dummy", "skip_tokenizer_init": True, "enable_prefix_caching": True,
        "max_model_len": CONTEXT, "max_num_seqs": 64, "max_num_batched_tokens": 8192, "disable_log_stats": False,
        "gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": CARD_TOKENS * TOKEN_BYTES, "seed": 1,
    }  # fmt: skip
    engines = {name: Engine(name, {**options, **ARMS[name][0]}, ARMS[name][1]) for name in names}
    for engine in engines.values():
        engine.start()
    return {name: engine for name, engine in engines.items() if engine.is_ready()}


def measured(engines: dict[str, Engine], length: int, end: float) -> Any:  # noqa: ANN401 - an iterator of rows
    """Rows until the time is over, the arms in turns."""
    chance = random.Random(7)  # noqa: S311 - no secret
    prefixes = [[chance.randrange(1000, 100_000) for _ in range(length)] for _ in range(PREFIXES)]
    for name, engine in engines.items():
        for prefix in prefixes:
            yield {"what": "first", "arm": name, "ms": engine.ask("token", prefix)}
        engine.ask("decode", fresh(chance, 64), ANSWER)
    turn = 0
    while time.monotonic() < end:
        for prefix in prefixes:
            for name, engine in engines.items():
                yield {"what": "hit", "turn": turn, "arm": name, "ms": engine.ask("token", prefix)}
        rows = {count: fresh(chance, count) for count in (1, 10, 64)}
        for count, prompts in rows.items():
            for name, engine in engines.items():
                found = engine.ask("decode", prompts, ANSWER)
                yield {"what": f"miss {count}", "turn": turn, "arm": name, "ms": found}
        for name, engine in engines.items():
            found = engine.ask("beside", fresh(chance, 40), 4 * ANSWER, prefixes)
            yield {"what": "beside", "turn": turn, "arm": name, "ms": found}
        first = next(iter(engines.values()))
        yield {"what": "bus", "turn": turn, "arm": "copy", "ms": first.ask("copy", length * TOKEN_BYTES)}
        for name, engine in engines.items():
            yield {"what": "bus", "turn": turn, "arm": name, "ms": engine.ask("token", fresh(chance, 1, 1)[0])}
        turn += 1


def fresh(chance: random.Random, count: int, length: int = 200) -> list[list[int]]:
    """Prompts that nobody has asked before."""
    return [[chance.randrange(1000, 100_000) for _ in range(length)] for _ in range(count)]


def table(path: Path) -> str:
    """Medians of each measurement and arm, and the median of the pairs' ratios to the first arm."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    by: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        by.setdefault((row["what"], row["arm"]), []).append(row["ms"])
    lines = ["| what | arm | ms | least | runs | of the first arm |", "| --- | --- | --- | --- | --- | --- |"]
    base: dict[str, list[float]] = {}
    for (what, arm), found in by.items():
        pairs = [one / other for one, other in zip(found, base.setdefault(what, found), strict=False)]
        lines.append(
            f"| {what} | {arm} | {statistics.median(found):.2f} | {min(found):.2f} | {len(found)} "
            f"| {statistics.median(pairs):.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
