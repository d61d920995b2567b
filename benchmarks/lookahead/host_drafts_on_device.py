"""On a GPU: what a draft model on the host's cores is worth, over its acceptance, for a large and a small target.

How to run, in the repository's root of a machine with a GPU, python3.12 and vLLM 0.32 in SITE (no network is needed):

1.  The core: `python3.12 -m pip install --target CORE server/lookahead`, or a folder that has `windlass_lookahead`.
2.  `work=$(mktemp -d)`
3.  `beside=$(python3.12 benchmarks/quantization/beside.py $work)`: vLLM finds our quantization methods by it.
4.  `export PYTHONPATH=CORE:$beside:server/src:lib/sizing/src:lib/base/src:benchmarks/lookahead:SITE`, all absolute.
5.  `export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_USE_FLASHINFER_SAMPLER=0 TMPDIR=$work`
6.  `python3.12 benchmarks/lookahead/host_drafts_on_device.py OUT.jsonl --shape 70b --seconds 540`
7.  The same with `--shape 7b`. The same command goes on where it stopped; `--requests 1 --acceptance 0.7` is one cell.
    `--draft 160m 0.5b@4` measures two draft models with one start, the second with weights of four bits.
8.  `python3.12 benchmarks/lookahead/host_draft.py`: what the decoder alone takes on that machine.

The targets have random weights: Llama-3.1-70B's shape in ifq_nf4 (38 GiB), Qwen2-7B's in float16. Their text is forced
(`forced`), so that nothing in it repeats. The draft model has the shape that `--draft` names. The time of each draft is
real, and each token is replaced by the recorded one with the chance `--acceptance`, or by a wrong one.

`off` is the same engine while the host drafts nothing. `none` is an engine of its own without speculation; it is left
out where the card does not hold two engines (`--without-none`). All take turns on the same requests.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arms import Arm, Exchange
from host_draft import CONFIGS
from windlass.launch.lookahead import CONTEXT_TOKENS, COSTS_CONTEXT

QWEN2_7B = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": False,
    "hidden_act": "silu", "torch_dtype": "float16", "bos_token_id": 151643, "eos_token_id": 151645,
}  # fmt: skip
LLAMA_70B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 28672,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "float16",
    "bos_token_id": 128000, "eos_token_id": 128001,
}  # fmt: skip
GIB = 1 << 30
PROMPT_TOKENS, OUTPUT_TOKENS = 200, 128
TEXTS = 128
REQUESTS, ACCEPTANCES = (1, 4, 10, 64), (0.7, 0.8, 0.6, 0.9, 0.5)
"""The acceptances that small drafts have in the literature come first."""
LEARNING_ROWS, LEARNING_RUNS = 10, 2
"""Requests by which a new policy learns its acceptance before anything is timed."""
LEAST_S = 30
TEMP = tempfile.gettempdir()


@dataclass(frozen=True)
class Target:
    """A model that is served: its shape, and how its weights are quantized."""

    config: dict[str, Any]
    method: str
    kv_gib: int
    """Holds 64 requests."""


@dataclass(frozen=True)
class Draft:
    """A draft model: its shape in `host_draft`, and the bits of each weight."""

    shape: str
    bits: int = 8

    @classmethod
    def of(cls, word: str) -> Draft:
        """`0.5b`, or `0.5b@4` with four bits."""
        shape, _, bits = word.partition("@")
        if shape not in CONFIGS or bits not in ("", "8", "4"):
            raise argparse.ArgumentTypeError(f"{word!r} is no draft model; write {', '.join(CONFIGS)}, or one with @4")
        return cls(shape, int(bits or 8))


TARGETS = {"70b": Target(LLAMA_70B, "ifq_nf4", 8), "7b": Target(QWEN2_7B, "none", 3)}


def texts(vocabulary: int, count: int) -> list[Exchange]:
    """Prompts and what follows them, in which no token comes twice."""
    chance = random.Random(1)  # noqa: S311 - no secret
    ids = range(1000, min(vocabulary, 128_000))
    rows = [chance.sample(ids, PROMPT_TOKENS + OUTPUT_TOKENS) for _ in range(count)]
    return [(row[:PROMPT_TOKENS], row[PROMPT_TOKENS:]) for row in rows]


def common(name: str, target: Target) -> dict[str, Any]:
    """Options of both engines."""
    from windlass.launch.quantize import METHOD, engine_value

    model = Path(TEMP, f"host-drafts-{name}")
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(target.config))
    quantization = None if target.method == "none" else engine_value(METHOD, target.method)
    return {
        "model": str(model), "load_format": "dummy", "dtype": "float16", "quantization": quantization,
        "max_model_len": 512, "max_num_seqs": 64, "max_num_batched_tokens": 4096, "gpu_memory_utilization": 0.05,
        "kv_cache_memory_bytes": target.kv_gib * GIB, "logits_processors": ["forced:Forced"],
    }  # fmt: skip


def engines(wanted: argparse.Namespace, options: dict[str, Any]) -> list[Arm]:
    """The engine that drafts, and the plain one where the card holds both; ready, one after the other."""
    folder = Path(TEMP, "host-drafts-counts")
    speculation = {
        "method": "ngram_gpu", "num_speculative_tokens": wanted.tokens, "prompt_lookup_min": 2, "prompt_lookup_max": 4,
        "enable_adaptive_verification": True,
    }  # fmt: skip
    words = {
        "speculative_config": speculation,
        "worker_cls": "host_drafts_worker.HostDraftsWorker",
        "scheduler_cls": "windlass.engine.lookahead.scheduler.LookaheadScheduler",
    }
    known = {"has_cache": False, "counts_dir": str(folder)}
    variables = {"WINDLASS_LOOKAHEAD": json.dumps(known), "VLLM_CACHE_ROOT": f"{TEMP}/vllm-host-drafts"}
    variables |= {COSTS_CONTEXT: str(CONTEXT_TOKENS)}
    made = [Arm("drafts", {**options, **words}, variables)]
    if not wanted.without_none:
        made.append(Arm("none", options, {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-host-none"}))
    for arm in made:  # one after the other: costs that are timed beside another engine's start mean nothing
        arm.start()
        arm.answer()
    return made


class Bench:
    """Both engines of one target, asked in turns."""

    def __init__(self, wanted: argparse.Namespace, draft: Draft) -> None:
        target = TARGETS[wanted.shape]
        self.wanted = wanted
        self.rows = texts(target.config["vocab_size"], TEXTS)
        self.arms = engines(wanted, common(wanted.shape, target))
        self.at = 0
        self.use(draft)

    @property
    def names(self) -> list[str]:
        """What takes turns."""
        return ["off", *(["none"] if len(self.arms) > 1 else []), "drafts"]

    def picked(self, requests: int) -> list[Exchange]:
        """The next texts, from the front again at the end."""
        found = [self.rows[(self.at + number) % TEXTS] for number in range(requests)]
        self.at += requests
        return found

    def once(self, name: str, picked: list[Exchange]) -> float:
        """Milliseconds a token of a request."""
        arm = self.arms[1 if name == "none" else 0]
        if name != "none":
            arm.ask("call", "drafting", name == "drafts")
        return float(arm.ask("run", picked, OUTPUT_TOKENS, True)["ms"])

    def use(self, draft: Draft) -> None:
        """Draft by this model from here on."""
        self.draft = draft
        self.card = self.arms[0].ask("call", "load_draft", draft.shape, draft.bits)

    def learn(self, acceptance: float) -> None:
        """A new policy, which has seen some requests."""
        self.arms[0].ask("call", "learn_anew", acceptance, self.rows, int(100 * acceptance))
        for _ in range(LEARNING_RUNS):
            self.once("drafts", self.picked(LEARNING_ROWS))

    def cell(self, requests: int, acceptance: float) -> dict[str, Any]:
        """All pairs at one number of requests."""
        self.once("drafts", self.picked(requests))
        before = self.arms[0].ask("call", "figures")
        times: dict[str, list[float]] = {name: [] for name in self.names}
        for pair in range(self.wanted.pairs):
            picked = self.picked(requests)
            for name in self.names if pair % 2 == 0 else reversed(self.names):
                times[name].append(self.once(name, picked))
        after = self.arms[0].ask("call", "figures")
        counts = {key: after[key] - before[key] for key in after}
        forecast = self.arms[0].ask("call", "forecast_ms", requests)
        return {
            "card": self.card, "shape": self.wanted.shape, "draft": self.draft.shape, "bits": self.draft.bits,
            "requests": requests, "acceptance": acceptance,
            "tokens_s": {name: round(1000 * requests / statistics.median(ms), 1) for name, ms in times.items()},
            **{f"times_{base}": ratio(times[base], times["drafts"]) for base in self.names[:-1]},
            "waited_ms": round(counts["host_us"] / 1000 / max(1, counts["hosted"]), 2),
            "drafted_steps": round(counts["hosted"] / max(1, counts["steps"]), 3),
            "forecast_ms": [round(ms, 2) for ms in forecast],
            **{name: counts[name] for name in ("rests", "wakes", "trials", "outrun")},
            "late_rows": counts["missed"], "lost": counts["lost"], "released": counts["released"],
            "step_ms": round(after["step_us"] / 1000, 2), "pairs": times,
        }  # fmt: skip


def ratio(base: Sequence[float], drafts: Sequence[float]) -> dict[str, float]:
    """Speed with drafts as a multiple, pair by pair: median, least and most."""
    each = sorted(one / other for one, other in zip(base, drafts, strict=True))
    return {"median": round(statistics.median(each), 3), "least": round(each[0], 3), "most": round(each[-1], 3)}


def missing(wanted: argparse.Namespace) -> Iterator[tuple[Draft, float, list[int]]]:
    """Draft models and acceptances, with the numbers of requests that OUT has no row of."""
    lines = wanted.out.read_text().splitlines() if wanted.out.exists() else []
    there = {
        (row["shape"], Draft(row["draft"], row.get("bits", 8)), row["acceptance"], row["requests"])
        for row in map(json.loads, lines)
    }
    for draft, acceptance in itertools.product(wanted.draft, wanted.acceptance):
        left = [count for count in wanted.requests if (wanted.shape, draft, acceptance, count) not in there]
        if left:
            yield draft, acceptance, left


def main() -> None:
    """Cell by cell as far as the time goes; a line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=TARGETS, default="70b")
    parser.add_argument(
        "--draft", type=Draft.of, nargs="+", default=[Draft("0.5b")], help="shapes of host_draft.py; 0.5b@4 has 4 bits"
    )
    parser.add_argument("--tokens", type=int, default=4, help="drafted at most")
    parser.add_argument("--requests", type=int, nargs="+", default=REQUESTS)
    parser.add_argument("--acceptance", type=float, nargs="+", default=ACCEPTANCES)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--without-none", action="store_true", help="for a card that holds one engine")
    wanted = parser.parse_args()
    until = time.monotonic() + wanted.seconds
    cells = list(missing(wanted))
    if not cells:
        print(f"{wanted.out} has all cells")
        return
    bench = Bench(wanted, cells[0][0])
    print(f"engines ready, {until - time.monotonic():.0f} s left", flush=True)
    for count in wanted.requests:  # what compiles at its first use
        for name in bench.names[:-1]:
            bench.once(name, bench.picked(count))
    for draft, acceptance, counts in cells:
        if time.monotonic() > until - LEAST_S:
            break
        if draft != bench.draft:
            bench.use(draft)
        bench.learn(acceptance)
        for count in counts:
            if time.monotonic() > until - LEAST_S:
                break
            row = bench.cell(count, acceptance)
            with wanted.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps({key: value for key, value in row.items() if key != "pairs"}), flush=True)
    for arm in bench.arms:
        arm.end()


if __name__ == "__main__":
    main()
