"""On a GPU: greedy output of a small model in float32 with and without lookahead, and with the engine's own n-gram.

    python device_identity.py MODEL WORKLOADS.json.gz OUT.json

Equal, or first different where the two best tokens are tied to within 1e-3.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

from arms import Arm, lookahead

TIE = 1e-3
TOKENS, ROWS = 64, 48
NAMES = ("gsm8k", "code-edit-diff", "templated")


def rows(path: str, vocabulary: int) -> list[tuple[list[int], list[int]]]:
    """Text of three workloads, folded into the small model's vocabulary: it must repeat, not make sense."""
    found = json.loads(gzip.decompress(Path(path).read_bytes()))
    each = ROWS // len(NAMES)
    picked = [row for name in NAMES for row in found[name][:each]]
    return [([token % vocabulary for token in prompt[:300]], []) for prompt, _ in picked]


def main() -> None:
    """Four engines, three passes of the lookahead ones: the second and third pass meet their own text."""
    model, workloads, out = sys.argv[1:]
    os.environ["TRITON_F32_DEFAULT"] = "ieee"  # else its attention multiplies float32 as TF32
    vocabulary = json.loads((Path(model) / "config.json").read_text())["vocab_size"]
    asked = rows(workloads, vocabulary)
    Path("/tmp/lookahead-identity").mkdir(exist_ok=True)  # noqa: S108 - a benchmark's machine
    words, variables = lookahead(6, "/tmp/lookahead-identity")  # noqa: S108
    common: dict[str, Any] = {
        "model": model, "dtype": "float32", "max_model_len": 512, "max_num_seqs": 32, "gpu_memory_utilization": 0.15,
        "kv_cache_memory_bytes": 1 << 30, "attention_config": {"backend": "TRITON_ATTN"},
        "compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"},
    }  # fmt: skip
    ngram = {**words["speculative_config"], "enable_adaptive_verification": False}
    fixed, _ = lookahead(6, "/tmp/lookahead-identity", adaptive=False)  # noqa: S108
    arms = [
        Arm("none", common),
        Arm("ngram", {**common, "speculative_config": ngram}),
        Arm("lookahead", {**common, **words}, variables),
        Arm("lookahead, all drafts verified", {**common, **fixed}, variables),
        Arm("lookahead, preempting", {**common, **words, "num_gpu_blocks_override": 300}, variables),
    ]
    for arm in arms:
        arm.start()
    for arm in arms:
        arm.answer()
    base = arms[0].ask("run", asked, TOKENS, False, 2)
    report = [found for arm in arms[:1] + arms[1:] for found in compared(arm, asked, base)]
    Path(out).write_text(json.dumps(report, indent=1))
    for line in report:
        print(line)
    for arm in arms:
        arm.end()


def compared(arm: Arm, asked: list[Any], base: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """A line for each pass."""
    lines = []
    for number in range(3):
        ids = arm.ask("run", asked, TOKENS, False)["ids"]
        places = [first(one, two) for one, two in zip(base["ids"], ids, strict=True)]
        gaps = [base["best"][row][place] for row, place in enumerate(places) if place is not None]
        counts = arm.ask("call", "figures") if arm.name.startswith("look") else {}
        equal = {"equal": places.count(None), "of": len(places), "untied": sum(gap > TIE for gap in gaps)}
        lines.append({"arm": arm.name, "pass": number, **equal, "gaps": [round(gap, 6) for gap in gaps], **counts})
    return lines


def first(one: list[int], two: list[int]) -> int | None:
    """Where two texts part."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=True)) if a != b), None)


if __name__ == "__main__":
    main()
