"""On a GPU: the kernel that places drafts, against sorting, on drawn batches.

    python tests/card/placing.py [--batches 300]

Exits 1 at the first batch that differs.
"""

from __future__ import annotations

import argparse
import random
import sys

import torch
from windlass.engine.lookahead.kernels import place_drafts

MOST = 6
SURE = (0.0, 1.0, 0.5, 0.9)
"""Confidences that rows share, so that there are ties."""


def place(
    sure: torch.Tensor, places: list[int], planned: list[int], plain: list[int], budget: int, rows: int
) -> list[int]:
    """Drafts allotted to each row by the kernel; fails when the batch that it lays out is another."""
    device, bonus = sure.device, 1
    count = len(places)
    logits, tokens = (torch.full((rows + 1,), -1, dtype=torch.int32, device=device) for _ in range(2))
    plans = torch.zeros((2, rows), dtype=torch.int32, device=device)
    plans[0, :count], plans[1, :count] = torch.tensor(planned), torch.tensor(plain)
    place_drafts(sure, torch.tensor(places, device=device), (plans[0], plans[1]), (logits, tokens), budget, bonus)
    found = (logits.diff()[:count] - bonus).tolist()
    of_tokens = (tokens.diff()[:count] - plans[1, :count]).tolist()
    if found != of_tokens or int(logits[0]) or int(tokens[0]) or logits[count + 1 :].ne(-1).any():
        raise AssertionError(f"the starts do not fit together: {logits.tolist()}, {tokens.tolist()}")
    return found


def best(survival: list[list[float]], counts: list[int]) -> list[int]:
    """The first drafts of each row, the likeliest first: 16 bits of each one's survival, as the kernel has them."""
    rows = zip(survival, counts, strict=True)
    return sorted((int(value * 65534.0) for row, count in rows for value in row[:count]), reverse=True)


def check(chance: random.Random, rows: int) -> None:
    """One drawn batch."""
    sure = torch.tensor([[chance.choice([*SURE, chance.random()]) for _ in range(MOST)] for _ in range(rows)])
    count = chance.randint(1, rows)
    places, planned = chance.sample(range(rows), count), [chance.choice((0, 1, 3, MOST, MOST)) for _ in range(count)]
    plain = [chance.choice((1, 1, 1, 40)) for _ in range(count)]
    budget = chance.randint(0, sum(planned))
    found = place(sure.cuda(), places, planned, plain, budget, rows)
    survival = sure[places].cumprod(dim=1).tolist()
    taken, wanted = best(survival, found), best(survival, planned)[:budget]
    if (
        sum(found) != budget
        or any(one > most for one, most in zip(found, planned, strict=True))
        or _apart(taken, wanted)
    ):
        raise AssertionError(
            f"{sure.tolist()}, {places}, {planned}, {budget}: {found} has {taken}, sorting has {wanted}"
        )


def _apart(taken: list[int], wanted: list[int]) -> bool:
    return any(
        abs(one - two) > 1 for one, two in zip(taken, wanted, strict=True)
    )  # the device rounds products otherwise


def main() -> int:
    """Check as many batches as the command asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=300)
    arguments = parser.parse_args()
    chance = random.Random(1)  # noqa: S311 - no secret
    for number in range(arguments.batches):
        check(chance, (16, 64, 256, 1024, 1200)[number % 5])
    print(f"{arguments.batches} batches: as sorting has it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
