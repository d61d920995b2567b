"""The same text with evicted prefixes in host memory and without: a real model, greedy, on a small KV cache.

    python identity.py MODEL OUT.jsonl [--kills 5]

Each arm asks the same prompts three times. Twelve documents share the card's cache, which holds two of them, so that
every later prompt finds its prefix in host memory. `--kills`: an engine is killed by SIGKILL in the middle of its
loads, so many times; the next one must answer the same, and nothing may be left in /dev/shm.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines import Engine
from on_device import windlass

DOCUMENTS, TOKENS, ASKED, VOCABULARY = 12, (300, 700, 1100, 1537), 24, 6000
CARD_BYTES = 4096 * 8 * 2 * 64 * 2 * 2
"""4,096 tokens of the demo's model: 8 layers, 2 heads of 64, keys and values of 2 bytes."""
HOST_BYTES = 1 << 30
LENGTHS: dict[str, dict[str, Any]] = {
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
    "fp8 cache": {"dtype": "bfloat16", "kv_cache_dtype": "fp8"},
}


def prompts() -> list[list[int]]:
    """Documents with a question each: three questions a document, so that prefixes are shared."""
    chance = random.Random(3)  # noqa: S311 - no secret
    documents = [[chance.randrange(10, VOCABULARY) for _ in range(TOKENS[at % len(TOKENS)])] for at in range(DOCUMENTS)]
    return [[*document, *chance.sample(range(10, VOCABULARY), 7)] for _ in range(3) for document in documents]


def engine(model: str, name: str, words: dict[str, Any], *, offload: bool) -> Engine:
    """One arm on the demo's model."""
    options = {
        "model": model, "skip_tokenizer_init": True, "enable_prefix_caching": True, "max_model_len": 2048,
        "max_num_seqs": 16, "gpu_memory_utilization": 0.02, "kv_cache_memory_bytes": CARD_BYTES,
        "disable_log_stats": False, "enforce_eager": True, "seed": 1, **words,
    }  # fmt: skip
    if offload:
        options["kv_transfer_config"] = windlass(cpu_bytes_to_use=HOST_BYTES)
    return Engine(name, options)


def main() -> None:
    """Compare, then kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    with asked.out.open("w") as out:
        for row in rows(asked.model, asked.kills):
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(row, flush=True)


def rows(model: str, kills: int) -> Iterator[dict[str, Any]]:
    """A row as soon as it is there: the time on a card may end before the last."""
    yield from (compared(model, name, words) for name, words in LENGTHS.items())
    yield killed(model, kills)


def compared(model: str, name: str, words: dict[str, Any]) -> dict[str, Any]:
    """Outputs of both arms, and what the second found in host memory."""
    arms = [engine(model, f"{name} {offload}", words, offload=offload) for offload in (False, True)]
    found = []
    for arm in arms:
        arm.start()
        if not arm.is_ready():
            return {"what": name, "failed": True}
        found.append([arm.ask("texts", prompts(), ASKED) for _ in range(3)])
    counted = arms[1].ask("counted")
    for arm in arms:
        arm.end()
    pairs = [(one, other) for plain, kept in zip(*found, strict=True) for one, other in zip(plain, kept, strict=True)]
    again = [one == other for plain in found[0] for one, other in zip(found[0][0], plain, strict=True)]
    return {
        "what": name,
        "outputs": len(pairs),
        "differ": sum(one != other for one, other in pairs),
        "differ without, asked again": again.count(False),
        **counted,
    }


def killed(model: str, times: int) -> dict[str, Any]:
    """Engines that die in the middle of loads: the next one's answers, and what is left."""
    first = engine(model, "before", LENGTHS["bfloat16"], offload=True)
    first.start()
    first.is_ready()
    wanted = first.ask("texts", prompts(), ASKED)
    differ = 0
    for _ in range(times):
        first.send("texts", prompts(), ASKED)
        time.sleep(0.05)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.join()
        first = engine(model, "after", LENGTHS["bfloat16"], offload=True)
        first.start()
        first.is_ready()
        differ += sum(one != other for one, other in zip(wanted, first.ask("texts", prompts(), ASKED), strict=True))
        differ += sum(one != other for one, other in zip(wanted, first.ask("texts", prompts(), ASKED), strict=True))
    first.end()
    left = [path.name for path in Path("/dev/shm").glob("vllm_offload_*")]  # noqa: S108 - where the engine keeps them
    return {"what": "killed", "times": times, "differ": differ, "left": left}


if __name__ == "__main__":
    main()
