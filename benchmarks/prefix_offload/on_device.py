"""On a GPU: what a prefix in host memory costs to bring back, and what keeping it costs those who never hit.

    python on_device.py OUT.jsonl [--seconds 480] [--arms plain,windlass,native] [--trace conversation=FILE …]

One engine for each arm, side by side on one card: Llama-3.1-8B's shape, dummy weights, a KV cache of 40,000 tokens and
24 GiB of host memory (`--host-gib`). The arms take turns, one measurement at a time: a pair meets the same machine.

- `hit`: one token after a prefix of 10,000 tokens. Eight prefixes go round, so the KV cache has always evicted the one
  that is asked for: `plain` computes it again, the other arms load it. `parts`: what such a token waits for.
- `miss`: ms a token of 1, 10 and 64 requests whose prompts occur once. A prompt of 512 tokens is two chunks, which are
  copied while its answer is decoded. `miss 64 closed`: the same after a whole cache without a hit.
- `beside`: ms a token of 62 requests that decode alone, and while a prefix is asked for so many times a second, which
  lies on the card or in host memory.
- `bus`: the same bytes by one pinned copy, and one step of one token.
- Traces: each request of a drawn part of the trace at its own time, one arm after the other.

A program that is started again with the same OUT goes on with the traces that have no row yet.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines import Engine, started
from traces import drawn, read, repeated

LAYERS, KV_HEADS, HEAD, VOCABULARY = 32, 8, 128, 128256
SHAPE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": LAYERS,
    "num_attention_heads": 32, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": 14336,
    "vocab_size": VOCABULARY, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 128000,
    "eos_token_id": 128001,
}  # fmt: skip
TOKEN_BYTES = LAYERS * KV_HEADS * HEAD * 2 * 2
CARD_TOKENS = 40_000
PREFIXES, ANSWER, CONTEXT = 8, 64, 16_384
MISSED = 512
"""Tokens of a prompt that never comes back: two chunks."""
OTHERS, OTHERS_PROMPT, OTHERS_ANSWER, OTHERS_START_S = 62, 200, 128, 0.5
RATES = {"plain": (("host", 2),), "windlass": (("card", 10), ("host", 10), ("host", 2)), "native": (("host", 10),)}
"""Where the prefix lies, and how many a second are asked for beside the others."""
LAP_PROMPTS, LAP_TOKENS = 16, 4096
TRACE_REQUESTS, TRACE_WINDOW_S, TRACE_S = 140, 900, 32
PACKED = {"VLLM_KV_CACHE_LAYOUT": "BLHNC"}
PARTS = ("ms", "taken", "found", "submitted", "copied", "seen", "stepped")
"""Of `Arm.parts`."""
Row = dict[str, Any]
Engines = dict[str, Engine]


def connector(host_bytes: int, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the connector takes
    """vLLM's configuration of its offloading connector."""
    extra = {"cpu_bytes_to_use": host_bytes, **extra}
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


def windlass(host_bytes: int, **extra: Any) -> dict[str, Any]:  # noqa: ANN401
    """What `windlass run --enable-prefix-cache-offload` gives the engine."""
    ours = {
        "spec_name": "PrefixOffloadSpec", "spec_module_path": "windlass.engine.prefix_offload.spec",
        "eviction_policy": "arc",
        "store_threshold": 1, "offload_prompt_only": True, "windlass_in_step": True,
        "cpu_bytes_to_use": host_bytes, **extra,
    }  # fmt: skip
    return {
        "kv_connector": "PrefixOffloadConnector",
        "kv_connector_module_path": "windlass.engine.prefix_offload.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": ours,
    }


def arms(host_bytes: int) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """The words of each engine, and its variables."""
    lmcache = {
        "LMCACHE_LOCAL_CPU": "True", "LMCACHE_MAX_LOCAL_CPU_SIZE": str(host_bytes >> 30), "PYTHONHASHSEED": "0",
        "LMCACHE_TRACK_USAGE": "false", "LMCACHE_LOG_LEVEL": "WARNING",
    }  # fmt: skip
    return {
        "plain": ({}, {}),
        "windlass": ({"kv_transfer_config": windlass(host_bytes)}, {}),
        "windlass-between": ({"kv_transfer_config": windlass(host_bytes, windlass_in_step=False)}, {}),
        "native": ({"kv_transfer_config": connector(host_bytes)}, {}),
        "plain-packed": ({}, PACKED),
        "packed": ({"kv_transfer_config": connector(host_bytes)}, PACKED),
        "packed-256": ({"kv_transfer_config": connector(host_bytes, blocks_per_chunk=16)}, PACKED),
        "lmcache": ({"kv_transfer_config": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}}, lmcache),
    }


def main() -> None:
    """Measure in turns until the time is over; a JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=480, help="in all, from the program's start")
    parser.add_argument("--turns", type=float, default=110, help="of these, for all but the traces")
    parser.add_argument("--arms", default="plain,windlass,native")
    parser.add_argument("--prefix", type=int, default=10_000)
    parser.add_argument("--host-gib", type=int, default=24)
    parser.add_argument("--trace", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--model", type=Path, default=Path(".cache/llama-3.1-8b-shape"))
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    done = finished(asked.out)
    engines = loaded(asked.arms.split(","), asked.model, asked.host_gib << 30)
    try:
        with asked.out.open("a") as out:
            for row in rows(engines, asked, done, end):
                out.write(json.dumps(row) + "\n")
                out.flush()
                if row["what"] not in ("hit", "first", "parts"):
                    print({key: value for key, value in row.items() if key != "each"}, flush=True)
    finally:
        for engine in engines.values():
            engine.end()
        print(table(asked.out), flush=True)


def finished(path: Path) -> set[tuple[str, str]]:
    """What an earlier run has, by measurement and arm."""
    text = path.read_text() if path.exists() else ""
    return {(row["what"], row["arm"]) for row in map(json.loads, text.splitlines())}


def loaded(names: list[str], model: Path, host_bytes: int) -> Engines:
    """Every arm that comes up."""
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps(SHAPE))
    options = {
        "model": str(model), "load_format": "dummy", "skip_tokenizer_init": True, "enable_prefix_caching": True,
        "max_model_len": CONTEXT, "max_num_seqs": 64, "max_num_batched_tokens": 8192, "disable_log_stats": False,
        "gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": CARD_TOKENS * TOKEN_BYTES, "seed": 1,
    }  # fmt: skip
    every = arms(host_bytes)
    chosen = [Engine(name, {**options, **every[name][0]}, every[name][1]) for name in names]
    return {engine.name: engine for engine in started(chosen)}


def rows(engines: Engines, asked: argparse.Namespace, done: set[tuple[str, str]], end: float) -> Iterator[Row]:
    """The turns, where no earlier run has them, and the traces."""
    if not engines:
        return
    last = next(iter(engines))
    if ("miss 64 closed", last) not in done:
        yield from turns(engines, asked.prefix, min(end, time.monotonic() + asked.turns))
        yield from closed(engines, asked.host_gib << 30, end)
    for name, path in (word.split("=", 1) for word in asked.trace):
        yield from replays(engines, name, Path(path), done, end)


def turns(engines: Engines, length: int, end: float) -> Iterator[Row]:
    """Rows until the time is over, the arms in turns."""
    chance = random.Random(time.time_ns())  # noqa: S311 - no secret; an earlier run's prefixes are not met again
    prefixes = [[chance.randrange(1000, 100_000) for _ in range(length)] for _ in range(PREFIXES)]
    for name, engine in engines.items():
        for prefix in prefixes:
            yield {"what": "first", "arm": name, "ms": engine.ask("token", prefix)}
        engine.ask("decode", fresh(chance, 64, MISSED), ANSWER)
        engine.ask("beside", fresh(chance, OTHERS, OTHERS_PROMPT), ANSWER, [])
    turn = 0
    while time.monotonic() < end:
        for row in one_turn(engines, chance, prefixes):
            yield {"turn": turn, **row}
            if time.monotonic() > end and turn:
                return
        turn += 1


def one_turn(engines: Engines, chance: random.Random, prefixes: list[list[int]]) -> Iterator[Row]:
    """Everything once, but for the traces."""
    for prefix in prefixes:
        for name, engine in engines.items():
            yield {"what": "hit", "arm": name, "ms": engine.ask("token", prefix)}
    for prefix in prefixes:
        for name, engine in engines.items():
            if not name.startswith("plain"):
                yield {"what": "parts", "arm": name, **engine.ask("parts", prefix)}
    first = next(iter(engines.values()))
    yield {"what": "bus", "arm": "copy", "ms": first.ask("copy", len(prefixes[0]) * TOKEN_BYTES)}
    for name, engine in engines.items():
        yield {"what": "bus", "arm": name, "ms": engine.ask("token", fresh(chance, 1, 1)[0])}
    for count in (1, 10, 64):
        prompts = fresh(chance, count, MISSED)
        for name, engine in engines.items():
            yield {"what": f"miss {count}", "arm": name, "ms": engine.ask("decode", prompts, ANSWER)}
    yield from beside(engines, chance, prefixes)


def beside(engines: Engines, chance: random.Random, prefixes: list[list[int]]) -> Iterator[Row]:
    """Others that decode: alone, and while prefixes are asked for."""
    for name, engine in engines.items():
        alone = engine.ask("beside", fresh(chance, OTHERS, OTHERS_PROMPT), OTHERS_ANSWER, [])
        yield {"what": "beside none", "arm": name, **alone}
        for place, rate in RATES.get(name, RATES["native"]):
            came = max(1, round(OTHERS_ANSWER * 0.0075 * rate))
            chosen = prefixes[:1] * came if place == "card" else [prefixes[at % PREFIXES] for at in range(came)]
            if place == "card":
                engine.ask("token", chosen[0])
            loads = [(OTHERS_START_S + at / rate, prefix, 1) for at, prefix in enumerate(chosen)]
            found = engine.ask("beside", fresh(chance, OTHERS, OTHERS_PROMPT), OTHERS_ANSWER, loads)
            share = {"of alone": found["ms"] / alone["ms"]}
            yield {"what": f"beside {place} {rate} a second", "arm": name, **found, **share}


def closed(engines: Engines, host_bytes: int, end: float) -> Iterator[Row]:
    """Without hits once the gate is closed: a whole cache of chunks came, and none of it came back."""
    chance = random.Random(time.time_ns())  # noqa: S311
    if "windlass" in engines:
        for _ in range(2 + host_bytes // (LAP_PROMPTS * LAP_TOKENS * TOKEN_BYTES)):
            engines["windlass"].ask("churn", fresh(chance, LAP_PROMPTS, LAP_TOKENS))
        counted = engines["windlass"].ask("counted")
        kept = {key: value for key, value in counted.items() if "prefix_offload" in key}
        yield {"what": "gate", "arm": "windlass", "ms": 0.0, **kept}
    for _ in range(4):
        prompts = fresh(chance, 64, MISSED)
        for name, engine in reversed(engines.items()):
            if time.monotonic() < end:
                yield {"what": "miss 64 closed", "arm": name, "ms": engine.ask("decode", prompts, ANSWER)}


def replays(engines: Engines, trace: str, path: Path, done: set[tuple[str, str]], end: float) -> Iterator[Row]:
    """The drawn part of a trace on each arm that has no row of it yet, and the rest of the time allows."""
    requests = drawn(read(path), TRACE_REQUESTS, TRACE_WINDOW_S, TRACE_S)
    asked = [(one.at_s, one.tokens(salt=trace), one.answer) for one in requests]
    for name, engine in engines.items():
        if (trace, name) in done or time.monotonic() + TRACE_S > end:
            continue
        engine.ask("reset", True)
        before = engine.ask("counted")
        engine.send("timed", asked)
        each = engine.answer()
        after = engine.ask("counted")
        yield {"what": trace, "arm": name, **summed(each), "repeated": repeated(requests),
               **{key: after[key] - before.get(key, 0) for key in after}, "each": each}  # fmt: skip


def summed(each: list[dict[str, float]]) -> dict[str, float]:
    """TTFT and tokens a second of a trace."""
    firsts = sorted(row["first_ms"] for row in each)
    begun, ended = min(row["due"] for row in each), max(row["due"] + row["last_ms"] / 1000 for row in each)
    return {
        "ms": statistics.mean(firsts),
        "p50": firsts[len(firsts) // 2],
        "p99": firsts[min(len(firsts) - 1, int(0.99 * len(firsts)))],
        "seconds": ended - begun,
        "tokens_s": sum(row["tokens"] for row in each) / (ended - begun),
        "all_tokens_s": sum(row["tokens"] + row["prompt"] for row in each) / (ended - begun),
    }


def fresh(chance: random.Random, count: int, length: int) -> list[list[int]]:
    """Prompts that nobody has asked before."""
    return [[chance.randrange(1000, 100_000) for _ in range(length)] for _ in range(count)]


def table(path: Path) -> str:
    """Medians of each measurement and arm, and the median of the pairs' ratios to the first arm."""
    by: dict[tuple[str, str], list[float]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        by.setdefault((row["what"], row["arm"]), []).append(row["ms"])
    lines = ["| what | arm | ms | least | runs | of the first arm |", "| --- | --- | --- | --- | --- | --- |"]
    base: dict[str, list[float]] = {}
    for (what, arm), found in by.items():
        pairs = [one / other for one, other in zip(found, base.setdefault(what, found), strict=False) if other]
        lines.append(
            f"| {what} | {arm} | {statistics.median(found):.2f} | {min(found):.2f} | {len(found)} "
            f"| {statistics.median(pairs) if pairs else 0:.3f} |"
        )
    return "\n".join([*lines, *parts_table(path)])


def parts_table(path: Path) -> list[str]:
    """Median ms of the parts of a first token after a prefix in host memory, for each arm."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in map(json.loads, path.read_text().splitlines()):
        if row["what"] == "parts" and all(name in row for name in PARTS):
            for name in PARTS:
                found.setdefault(row["arm"], {}).setdefault(name, []).append(row[name])
    lines = ["", f"| arm | requests | {' | '.join(PARTS)} |", "| --- " * (2 + len(PARTS)) + "|"]
    for arm, by in found.items():
        lines.append(
            f"| {arm} | {len(by['ms'])} | {' | '.join(f'{statistics.median(by[name]):.2f}' for name in PARTS)} |"
        )
    return lines


if __name__ == "__main__":
    main()
