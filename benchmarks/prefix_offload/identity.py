"""On a GPU: the same text with evicted prefixes in host memory and without, kills amid copies, memory, and counts.

    python identity.py OUT.jsonl --trace TRACE.jsonl [--seconds 300] [--only outputs,counts,kills,memory] [--ranks 1]

- `outputs`: twelve documents share a card's cache that holds four of them. Each pass asks every document something
  new, greedy, one request at a time. A document is whole chunks, so that both arms compute the question alone: the
  arm without host memory has a cache for all documents. Equal blocks then give equal bits.
- `counts`: a part of a trace, one request after the other; the card's cache is emptied now and then. The engine's
  counters and the `[HIT CNT]` lines are compared with sums over the trace's hashes.
- `kills`: SIGKILL while a copy is between submission and completion; the next engine's outputs are compared with
  those of an engine without host memory, and nothing may be left in /dev/shm.
- `memory`: prompts until 20 times the host memory was replaced; the process's memory on the way.

The model is `wide.py`'s. A program that is started again with the same OUT goes on with what has no row yet.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wide
from checks import counts, memory
from engines import Engine, started
from kills import kills
from setting import EVERYTHING, SMALL, Asked, Setting, documents, one_engine

LOOKAHEAD = {
    "speculative_config": {
        "method": "ngram_gpu", "num_speculative_tokens": 6, "prompt_lookup_min": 2, "prompt_lookup_max": 4,
    },
    "worker_cls": "windlass.engine.lookahead.vllm_gpu.DeviceWorker",
    "scheduler_cls": "windlass.engine.lookahead.scheduler.LookaheadScheduler",
}  # fmt: skip
LORA = {"enable_lora": True, "max_lora_rank": wide.RANK, "max_loras": 1}
WORDS: dict[str, dict[str, Any]] = {
    "float16": {"dtype": "float16"},
    "fp8 cache": {"dtype": "bfloat16", "kv_cache_dtype": "fp8"},
    "lora": {"dtype": "bfloat16", **LORA},
    "lookahead": {"dtype": "bfloat16", **LOOKAHEAD},
}
ONE_ORDER = {"block_m": 32, "block_n": 16, "block_k": 256, "split_k": 1, "num_warps": 4, "num_ctas": 1,
             "group_size_m": 8, "num_stages": 2, "max_nreg": None}  # fmt: skip
ANSWER = 24
PASSES: dict[str, tuple[tuple[str, bool, bool], ...]] = {
    # salt, with the adapter, whether prefixes may be found
    "float16": (("", False, False), ("", False, True), ("", False, True), ("a", False, False), ("a", False, True),
                ("b", False, False), ("b", False, True)),
    "fp8 cache": (("", False, False), ("", False, True), ("", False, True)),
    "lora": (("", True, False), ("", True, True), ("", False, False), ("", False, True)),
    "lookahead": (("", False, False), ("", False, True), ("", False, True)),
}  # fmt: skip
HITS = ("vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits")


def main() -> None:
    """Row by row, what was not done yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--only", default="outputs,counts,kills,memory")
    parser.add_argument("--kinds", default=",".join(WORDS), help="of outputs")
    parser.add_argument("--ranks", type=int, default=1, help="tensor parallel")
    parser.add_argument("--plain", action="store_true", help="no arm with host memory: a rehearsal without a GPU")
    parser.add_argument("--work", type=Path, default=Path("/tmp/prefix-offload"))  # noqa: S108 - a benchmark's machine
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    for name in set(WORDS) - set(asked.kinds.split(",")):
        del WORDS[name]
    setting = Setting(asked.work, time.monotonic() + asked.seconds, asked.ranks, asked.trace, asked.plain)
    text = asked.out.read_text() if asked.out.exists() else ""
    done = [json.loads(line) for line in text.splitlines()]
    with asked.out.open("a") as out:
        for part in asked.only.split(","):
            for row in PARTS[part](setting, done):
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(row, flush=True)


def outputs(setting: Setting, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each kind of cache."""
    names = [name for name in WORDS if not any(row["what"] == name for row in done)]
    arms = [
        one_engine(setting, f"{name} {place}", WORDS[name], cache, _variables(setting, name))
        for name in names
        for place, cache in (("card", EVERYTHING), ("host", SMALL))
    ]
    for first in range(0, len(arms), 2):
        if setting.left_s() < 60:
            return
        pair = started(arms[first : first + 2])
        name = names[first // 2]
        try:
            yield compared(setting, name, pair) if len(pair) == 2 else {"what": name, "failed": True}
        except RuntimeError as error:
            yield {"what": name, "failed": True, "why": str(error)[-1500:]}
        for arm in pair:
            arm.end()


def _variables(setting: Setting, name: str) -> dict[str, str]:
    if name == "lora":
        return {"VLLM_TUNED_CONFIG_FOLDER": str(_one_order(setting.work / "one-order"))}
    if name != "lookahead":
        return {}
    folder = str(setting.work)
    return {"WINDLASS_LOOKAHEAD": json.dumps({"config_dir": folder, "counts_dir": f"{folder}/counts"})}


def _one_order(folder: Path) -> Path:
    """vLLM's defaults for LoRA's kernels, but a sum is not split: parts are added by atomics, in whatever order."""
    ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    seen = subprocess.run(ask, capture_output=True, text=True, check=False).stdout if shutil.which(ask[0]) else ""
    folder.mkdir(exist_ok=True)
    for card in set(seen.splitlines()):
        stem = card.strip().replace(" ", "_").replace("-", "_")
        words = {str(slices): {"1": {"1": {"1": ONE_ORDER}}} for slices in (1, 2, 3)}
        (folder / f"{stem}_SHRINK.json").write_text(json.dumps({"1": words}))
    return folder


def compared(setting: Setting, name: str, pair: list[Engine]) -> dict[str, Any]:
    """Outputs of both arms, what the second found in host memory, and what it found where there is nothing to find."""
    adapter = str(wide.adapter(setting.work / "adapter")) if name == "lora" else ""
    total, leaked, seen = 0, 0.0, set()
    unlike: list[tuple[Asked, int]] = []
    first: list[Any] = []
    for number, (salt, with_adapter, may_find) in enumerate(PASSES[name]):
        asked = questions(number, salt, adapter if with_adapter else "")
        before = [pair[1].ask("counted").get(key, 0.0) for key in HITS]
        for arm in pair:
            arm.send("answers", asked, ANSWER)
        plain, kept = (arm.answer() for arm in pair)
        after = [pair[1].ask("counted").get(key, 0.0) for key in HITS]
        leaked += 0 if may_find else sum(after) - sum(before)
        first = first or plain
        total += len(plain)
        for question, (one, _), (other, _) in zip(asked, plain, kept, strict=True):
            seen.add(tuple(one))
            if one != other:
                place = next(at for at, two in enumerate(zip(one, other, strict=True)) if two[0] != two[1])
                unlike.append((question, place))
    counted = pair[1].ask("counted")
    gaps = [round(pair[0].ask("gaps", question, ANSWER)[place], 4) for question, place in unlike[:8]]
    pair[0].ask("reset", False)
    salt, with_adapter, _ = PASSES[name][0]
    again = pair[0].ask("answers", questions(0, salt, adapter if with_adapter else ""), ANSWER)
    noise = sum(one != two for one, two in zip(first, again, strict=True))
    return {"what": name, "ranks": setting.ranks, "outputs": total, "distinct": len(seen), "differ": len(unlike),
            "differ without, asked again": noise, "of": len(again), "gaps": gaps,
            "tokens found where none may be": leaked, **counted}  # fmt: skip


def questions(number: int, salt: str, adapter: str) -> list[Asked]:
    """Every document with a question that no pass before had."""
    found: list[Asked] = []
    for at, document in enumerate(documents()):
        prompt: dict[str, Any] = {"prompt_token_ids": [*document, *range(1000 + 97 * at, 1007 + 97 * at), 200 + number]}
        found.append(({**prompt, "cache_salt": salt} if salt else prompt, adapter))
    return found


PARTS = {"outputs": outputs, "counts": counts, "kills": kills, "memory": memory}


if __name__ == "__main__":
    main()
