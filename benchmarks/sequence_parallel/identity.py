"""Two GPUs against one: log-probabilities of prompts, answers, and answers after a prefix that is cached.

    python identity.py OUT.jsonl [--quick] [--seconds 400] [--tensor-parallel 2 --arms one,one:chunked,sp2]

A small model with weights of its own in float16. `one:chunked` is one GPU that cuts prompts elsewhere: its distance
from `one` is what rounding alone does, and the bound for two GPUs is twice that. A row a comparison, printed as it
comes; ends with 1 where a row is beyond its bound. `--tensor-parallel 2` gives each of these GPUs' places to two: then
`one` is tensor parallelism over two GPUs, and `sp2` has four.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from arms import Arm, started

import models

LENGTHS = (10, 127, 255, 257, 511, 1025, 2047, 2049, 4093, 8000)
QUICK = (10, 300, 1025)
STEP = 2048
"""Tokens of one step: prompts of 2049 and more are cut."""
TOKENS = 32
TWICE = 2.0


def main() -> int:
    """Compare, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="three prompts")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--arms", default="one,one:chunked,sp2,sp2:eager")
    parser.add_argument("--tensor-parallel", type=int, default=1, metavar="GPUS", help="GPUs that share each layer")
    parser.add_argument("--work", type=Path, default=Path("/tmp/sp"))  # noqa: S108 - the machine is ours
    wanted = parser.parse_args()
    begun = time.monotonic()
    options = {
        "model": str(models.small(wanted.work)), "skip_tokenizer_init": True, "dtype": "float16",
        "max_model_len": 8192, "max_num_seqs": 16, "max_num_batched_tokens": STEP, "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": 1 << 30, "seed": 1,
        "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16]},
    }  # fmt: skip
    arms = _arms(options, wanted)
    if "one" not in arms or not any(name.startswith("sp2") for name in arms):
        return 1
    good = True
    with wanted.out.open("a") as out:
        for row in rows(arms, QUICK if wanted.quick else LENGTHS):
            good &= row["fine"]
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(json.dumps(row), flush=True)
            if time.monotonic() > begun + wanted.seconds:
                print("the time is over", flush=True)
                break
    for arm in arms.values():
        arm.end()
    return 0 if good else 1


def _arms(options: dict[str, Any], wanted: argparse.Namespace) -> dict[str, Arm]:
    import arms as table

    table.ARMS["one"] = ({}, {"CUDA_VISIBLE_DEVICES": ",".join(table.GIVEN[: wanted.tensor_parallel])})
    table.ARMS["one:chunked"] = ({"max_num_batched_tokens": 768}, table.ARMS["one"][1])
    table.ARMS["sp2:eager"] = ({**table.SPLIT, "enforce_eager": True}, {})
    if wanted.tensor_parallel > 1:
        options = table.merged(options, table.tensor(wanted.tensor_parallel))
    return started(wanted.arms.split(","), options, wanted.work / "identity")


def rows(arms: dict[str, Arm], lengths: tuple[int, ...]) -> Any:  # noqa: ANN401 - an iterator of rows
    """Comparisons with one GPU."""
    prompts = [models.prompt(length, seed=length) for length in lengths]
    others = [name for name in ("one:chunked", "sp2", "sp2:eager") if name in arms]
    bound = 0.0
    expected = {len(one): arms["one"].ask("prompt_logprobs", [one])[0] for one in prompts}
    for name in list(others):  # the first is what rounding does
        worst = 0.0
        for one in prompts:
            found = asked(arms, name, others, "prompt_logprobs", [one])
            if found is None:
                yield {"what": "prompt log-probabilities", "arm": name, "tokens": len(one), "fine": False}
                break
            found = found[0]
            apart = [abs(a - b) for a, b in zip(found, expected[len(one)], strict=True)]
            worst = max(worst, *apart)
            row = {"what": "prompt log-probabilities", "arm": name, "tokens": len(one), "most": max(apart)}
            row |= {"mean": sum(apart) / len(apart), "at": apart.index(max(apart)) + 1, "bound": TWICE * bound}
            yield {**row, "fine": name == "one:chunked" or max(apart) <= TWICE * bound}
        bound = max(bound, worst) if name == "one:chunked" else bound
    yield from answers(arms, others, prompts, max(TWICE * bound, 1e-3))


def asked(arms: dict[str, Arm], name: str, others: list[str], *words: Any) -> Any:  # noqa: ANN401
    """What an arm answers; None where it failed, which is printed, and then it is asked no more."""
    try:
        return arms[name].ask(*words)
    except RuntimeError as why:
        print(why, flush=True)
        others.remove(name)
        return None


def answers(arms: dict[str, Arm], others: list[str], prompts: list[list[int]], bound: float) -> Any:  # noqa: ANN401
    """Answers one at a time, again with the prefix cached, all at once, and after a prefix of another prompt."""
    longest = max(prompts, key=len)
    extended = [longest[: len(longest) // 3 * 2 + 5] + models.prompt(700, seed=1), longest[:512] + models.prompt(1, 2)]
    rounds = {
        "one at a time": [[one] for one in prompts],
        "again, cached": [[one] for one in prompts],
        "a prefix of another": [[one] for one in extended],
        "all at once": [[one[1:] for one in prompts]],
    }
    for title, batches in rounds.items():
        for batch in batches:
            expected = arms["one"].ask("answers", batch, TOKENS)
            for name in list(others):
                found = asked(arms, name, others, "answers", batch, TOKENS)
                if found is None:
                    yield {"what": title, "arm": name, "fine": False}
                    continue
                for prompt, want, have in zip(batch, expected, found, strict=True):
                    yield {"what": title, "arm": name, "tokens": len(prompt), **apart(want, have, bound)}


def apart(want: Any, have: Any, bound: float) -> dict[str, Any]:  # noqa: ANN401 - what `answers` gives
    """Where two answers part, and how far apart the two tokens are for one GPU; before that, the largest distance."""
    same = next((at for at, pair in enumerate(zip(want[0], have[0], strict=True)) if pair[0] != pair[1]), len(want[0]))
    far = [
        abs(ours[token] - theirs[token])
        for ours, theirs in zip(have[1][:same], want[1][:same], strict=True)
        for token in theirs.keys() & ours.keys()
    ]
    row: dict[str, Any] = {"cached": have[2], "cached on one": want[2], "same": same, "most": max(far, default=0.0)}
    gap = 0.0
    if same < len(want[0]):
        likely = want[1][same]
        gap = likely[want[0][same]] - likely.get(have[0][same], -100.0)
    return {**row, "gap": gap, "bound": bound, "fine": max(row["most"], gap) <= bound}


if __name__ == "__main__":
    sys.exit(main())
