"""Runs inside the serving image: what our manager of verification returns to the engine for drawn batches.

Usage: place_exactly.py CASES     Prints the cases that differ as a line of JSON.
"""

import json
import random
import sys
from types import SimpleNamespace

import numpy as np
from windlass.engine.lookahead.verification import Verification


class Core:
    """Chooses a fixed share."""

    def __init__(self, share):
        self.share, self.asked = share, None

    def choose(self, rows, planned, costs, emitting, *, decoding):
        """A share of what may be verified."""
        self.asked = (rows, planned, list(costs), emitting if emitting == len(rows) or not decoding else None)
        return int(self.share * (len(costs) - 1))


def batch(chance):
    """Rows in the engine's order, those with drafts in front: planned drafts, other tokens, what is left to read."""
    rows = chance.randrange(1, 40)
    drafting = chance.randrange(1, rows + 1)
    planned = [chance.choice((1, 3, 6)) if row < drafting else 0 for row in range(rows)]
    plain = [1 if row < drafting else chance.choice((1, 1, 7, 300)) for row in range(rows)]
    left = [0 if row < drafting else chance.choice((0, 1, 300, 2000)) for row in range(rows)]
    return planned, plain, left


def wrong(chance):
    """What differs in one drawn batch, or nothing."""
    planned, plain, left = batch(chance)
    rows, drafts = len(planned), sum(planned)
    ours = Verification.__new__(Verification)
    ours._trip, ours._most_logits, ours.num_bonus_tokens = Core(chance.choice((0, 0.3, 0.9, 1))), 10_000, 1
    taken = []
    ours._take = lambda: taken.append(1)
    ours._judging_ms = np.arange(10_001) / 100
    ours.cost_tables = (np.full(rows + 1, 0.5), np.arange(sum(plain) + drafts + 1, dtype=np.float64))
    names = [str(row) for row in range(rows)]
    read = np.arange(rows) + 100
    ours.req_states = SimpleNamespace(
        req_id_to_index={name: row for row, name in enumerate(names)},
        num_computed_tokens_np=read,
        prefill_len=SimpleNamespace(np=read + np.array(left)),
    )
    wanted = {name: one + more for name, one, more in zip(names, plain, planned, strict=True)}
    shuffled = chance.sample(names, rows)  # the scheduler's order is another one
    tokens = ours.get_num_tokens(
        {name: wanted[name] for name in shuffled},
        {name: [-1] * planned[int(name)] for name in names if planned[int(name)]},
    )
    budget = tokens - sum(plain)
    asked, of, costs, emitting = ours._trip.asked
    host = np.array(planned, dtype=np.int32), np.array([*wanted.values()], dtype=np.int32)
    logits = np.concatenate(([0], np.cumsum(host[0] + 1))).astype(np.int32)
    spread, starts = ours.compact_batch(*host, logits)
    found = {
        "rows": asked == shuffled and of == [planned[int(name)] for name in shuffled],
        "costs": np.allclose(
            costs, [0.5 + sum(plain) + one + bool(one) * (rows + one) / 100 for one in range(drafts + 1)]
        ),
        # Rows of one token each are taken to emit: the rest of a prompt is seldom read one by one.
        "emitting": emitting == (rows if sum(plain) == rows else sum(a >= b for a, b in zip(plain, left, strict=True))),
        "tokens": int(spread.sum()) == tokens and bool((spread >= plain).all()),
        "even": np.ptp((spread - plain)[host[0] > 0]) <= 1 or budget == drafts,
        "taken": len(taken) == (budget > 0),
        "none": budget > 0 or (spread.tolist() == plain and starts.tolist() == list(range(rows + 1))),
        "all": budget < drafts or (spread.tolist() == host[1].tolist() and starts is logits),
    }
    return [name for name, fine in found.items() if not fine]


if __name__ == "__main__":
    drawn = random.Random(1)  # noqa: S311 - draws cases, no secret
    cases = [found for _ in range(int(sys.argv[1])) if (found := wrong(drawn))]
    print("RESULT " + json.dumps({"wrong": cases}))
