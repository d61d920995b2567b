"""Prints the figures of a run: the best of each method, and the sum over the layers of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

SHAPES = {  # of Qwen2-7B, rows (outputs) and columns (inputs)
    "qkv": (4608, 3584),
    "o": (3584, 3584),
    "gate_up": (37888, 3584),
    "down": (3584, 18944),
    "lm_head": (152064, 3584),
}
LAYER = ("qkv", "o", "gate_up", "down")
LAYERS = 28
BROAD = ("gate_up", "lm_head")
SPLITS = ("splits", "per_tile")  # of a packed product, and of a stream


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
            print(name, m, method, *t.values(), f"{row['us']:.1f}")


def tilings(found: dict[str, Any], count: int = 4) -> None:
    """Of a sweep the tiles that are best for all narrow shapes, and for all broad ones, as tables of `choice.py` have.

    A shape is split as is best for it; beside stand its microseconds and its split (of a stream: blocks for a tile).
    """
    us: dict[tuple[str, int, str], dict[tuple[Any, ...], dict[str, tuple[float, int]]]] = defaultdict(dict)
    for row in found["rows"]:
        if "tiling" not in row:
            continue
        is_broad = row["shape"] in BROAD
        tiling = tuple(value for name, value in row["tiling"].items() if name not in SPLITS)
        (split,) = (value for name, value in row["tiling"].items() if name in SPLITS)
        if is_broad and split > 1:
            continue
        of = us["broad" if is_broad else "narrow", row["m"], row["method"]].setdefault(tiling, {})
        of[row["shape"]] = min(of.get(row["shape"], (1e9, 0)), (row["us"], split))
    for (kind, m, method), tiles in sorted(us.items()):
        shapes = max(map(len, tiles.values()))
        whole = [(sum(one[0] for one in of.values()), tiling, of) for tiling, of in tiles.items() if len(of) == shapes]
        for total, tiling, of in sorted(whole, key=lambda one: one[0])[:count]:
            print(kind, m, method, tiling, f"{total:.1f}:", *(f"{n} {u:.1f}/{s}" for n, (u, s) in of.items()))


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a page."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
