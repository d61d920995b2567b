"""Runs inside the serving image: compares `spread`, as the engine's sampler finds it, with a plain loop.

Usage: spread_exactly.py CASES     Prints the cases that differ as a line of JSON.
"""

import json
import random
import sys

import torch
from vllm.v1.sample import rejection_sampler
from windlass.engine.sampling import spread


def plain(values, counts, replace_from, replace_to):
    """Each value once a draft of its request; one value stands for another."""
    shown = [replace_to if value == replace_from else value for value in values]
    return [value for value, count in zip(shown, counts, strict=True) for _ in range(count)]


def main(cases: int) -> list[object]:
    """The cases that differ."""
    chance, wrong = random.Random(1), []  # noqa: S311 - draws cases, no secret
    spread.install()
    for case in range(cases):
        counts = [chance.choice((0, 0, 1, 2, 6, 16)) for _ in range(chance.randrange(1, 64))]
        kind, replaced = chance.choice(((torch.float32, (0.0, 1.0)), (torch.int32, (0, 50_000))))
        values = [chance.choice((0, 0, 1, 3, 40)) for _ in counts]
        ends = torch.tensor(counts, dtype=torch.int32).cumsum(0, dtype=torch.int32)
        found = rejection_sampler.expand_batch_to_tokens(torch.tensor(values, dtype=kind), ends, sum(counts), *replaced)
        if found.dtype != kind or found.tolist() != plain(values, counts, *replaced):
            wrong.append([case, values, counts])
    return wrong


if __name__ == "__main__":
    print("RESULT " + json.dumps({"wrong": main(int(sys.argv[1]))}))
