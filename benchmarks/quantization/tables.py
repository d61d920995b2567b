"""Prints the figures of a run: the best of each method, and the sum over the layers of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LAYER = ("qkv", "o", "gate_up", "down")
LAYERS = 28


def table(found: dict[str, Any]) -> None:
    """The best of each method, and the sum over a layer's four products times 28 layers."""
    best: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in found["rows"]:
        key = row["shape"], row["m"], row["method"]
        if key not in best or row["us"] < best[key]["us"]:
            best[key] = row
    methods = sorted({key[2] for key in best})
    rounds = sorted({key[1] for key in best})
    for name in sorted({key[0] for key in best}):
        for method in methods:
            figures = [best.get((name, m, method)) for m in rounds]
            print(f"{name:8s}{method:14s}", " ".join(f"{f['us']:8.1f}" if f else "       -" for f in figures))
    for method in methods:
        sums = [[best.get((name, m, method)) for name in LAYER] for m in rounds]
        print(
            f"SUM28 ms {method:13s}",
            " ".join(f"{LAYERS / 1000 * sum(f['us'] for f in s):8.3f}" if all(s) else "       -" for s in sums),
        )
    print("M".ljust(22), " ".join(f"{m:8d}" for m in rounds))
    for (name, m, method), row in sorted(best.items()):
        if "tiling" in row:
            t = row["tiling"]
            print(name, m, method, "wide" if "bm" in t else "few", *t.values(), f"{row['us']:.1f}")


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a page."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
