"""Fits what tilings take to sweeps of an H200, and names the tilings that together lose least: no GPU is needed.

    PYTHONPATH=server/src python benchmarks/quantization/rates.py SWEEP.json [SWEEP.json …] [--most 3]
        [--keep OUT.json.gz] [--write server/src/windlass/engine/quantization/kernels/tilings/h200.json]

A sweep is what `kernels.py --weights 4 --sweep` (or 8) writes. For each range of rows of x that the card's file has,
the rates of each tiling are fitted by least squares of relative errors, none below zero. The smallest set of tilings
whose choice takes at most 2 % longer than the best of all is taken, up to `--most` tilings. `--write` puts the sets
into the card's file; `--keep` writes what the file's tilings took, and the best ones, as the test of `choice.py` reads
it.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from tables import SHAPES
from windlass.engine.quantization.kernels.choice import APART_BYTES, PER_TILE_MOST, packed_us
from windlass.engine.quantization.kernels.tiling import PackedStream
from windlass.engine.quantization.kernels.tuned import DEFAULT, Rate, tuned_for

PROCESSORS = 132
PACKED_STREAMS = tuned_for(DEFAULT).packed_streams
WORTH = 0.004  # of the best's time: what one more tiling gains at least
NEAR = 1.02  # times as long as the best: what a set of tilings may take
PARTS = ("column_us", "part_us", "tile_us", "apart_us")
Timed = dict[tuple[int, str], dict[PackedStream, dict[int, float]]]
"""Microseconds, by rows of x and shape, tiling, and blocks for each tile."""


def timed(rows: Sequence[dict[str, Any]], bits: int) -> Timed:
    """Of a sweep."""
    found: Timed = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["method"] == f"stream{bits}":
            tiling = PackedStream(**row["tiling"])
            found[row["m"], row["shape"]][replace(tiling, per_tile=0)][tiling.per_tile] = row["us"]
    return found


def fitted(tiling: PackedStream, found: Timed) -> Rate | None:
    """Its rates; None where too little was timed. Reckoning is linear in them, so each is fitted by its own share."""
    cases = [(m, shape, way, us) for (m, shape), of in found.items() for way, us in of.get(tiling, {}).items()]
    ways = np.array([
        [packed_us(Rate(tiling, **{one: float(one == part) for one in PARTS}), way, (m, *SHAPES[shape]), PROCESSORS)
         for part in PARTS]
        for m, shape, way, _ in cases
    ])  # fmt: skip
    us = np.array([us for *_, us in cases])
    is_large = any(2 * m * SHAPES[shape][1] > APART_BYTES / 10 for m, shape, *_ in cases)
    kept = list(range(len(PARTS) if is_large else len(PARTS) - 1))
    while len(cases) > len(kept) > 0:
        rates, *_ = np.linalg.lstsq(ways[:, kept] / us[:, None], np.ones(len(us)))
        if (rates >= 0).all():
            return Rate(tiling, **{PARTS[at]: float(rate) for at, rate in zip(kept, rates, strict=True)}
                        | {part: 0.0 for at, part in enumerate(PARTS) if at not in kept})  # fmt: skip
        kept.pop(int(np.argmin(rates)))
    return None


def lost(rates: Sequence[Rate], found: Timed) -> float:
    """How many times as long as the best the products take together that these rates choose."""
    chosen, best = 0.0, 0.0
    for (m, shape), of in found.items():
        product = (m, *SHAPES[shape])
        ways = [
            (packed_us(rate, way, product, PROCESSORS), us)
            for rate in rates
            for way, us in of.get(rate.tiling, {}).items()
            if way <= PER_TILE_MOST
        ]
        least = min(us for ways_ in of.values() for us in ways_.values())
        chosen += min(ways)[1] / least if ways else float("inf")
        best += 1
    return chosen / best


def ranges(found: Timed, bits: int) -> Iterator[tuple[int, Timed]]:
    """What was timed with so many rows at most."""
    least = 0
    for most, _ in PACKED_STREAMS[bits]:
        part = {key: of for key, of in found.items() if least < key[0] <= most}
        if part:
            yield most, part
        least = most


def kept(found: Timed, bits: int) -> Iterator[dict[str, Any]]:
    """Lines of what the test of `choice.py` reads."""
    ours = {rate.tiling for _, rates in PACKED_STREAMS[bits] for rate in rates}
    for (m, shape), of in found.items():
        best = min(of, key=lambda tiling: min(of[tiling].values()))
        for tiling in sorted(of.keys() & ours | {best}, key=written):
            us = {str(way): round(us, 1) for way, us in of[tiling].items()}
            yield {"bits": bits, "m": m, "shape": shape, "tiling": written(tiling), "us": us}


def written(tiling: PackedStream) -> str:
    """In a word for each size."""
    return f"{tiling.bm} {tiling.r} {tiling.wg} {tiling.stages} {tiling.kb} {tiling.in_flight} {tiling.pair}"


def smallest(part: Timed, most: int, count: int) -> tuple[Rate, ...]:
    """The smallest set of tilings that is near the best of all; the best of the largest sets where none is."""
    tilings = {tiling for of in part.values() for tiling in of if tiling.bm >= min(most, 128)}
    rates = [rate for tiling in tilings if (rate := fitted(tiling, part))]
    singly = sorted(rates, key=lambda rate: lost([rate], part))[:12]  # of hundreds of triples
    best: tuple[Rate, ...] = ()
    for size in range(1, count + 1):
        found = min(itertools.combinations(singly, size), key=lambda one: lost(one, part), default=best)
        if not best or lost(found, part) < lost(best, part) - WORTH:
            best = found
        if best and lost(best, part) <= NEAR:
            break
    return best


def as_data(rate: Rate) -> dict[str, Any]:
    """A row of the card's file: what has its default is left out."""
    tiling = {one.name: getattr(rate.tiling, one.name) for one in fields(PackedStream)}
    defaults = {one.name: one.default for one in fields(PackedStream)}
    kept = {name: value for name, value in tiling.items() if value != defaults[name]}
    return {"tiling": kept, **{part: round(getattr(rate, part), 2) for part in PARTS}}


def show(found: Timed, bits: int, count: int) -> list[dict[str, Any]]:
    """Print the set of each range, and return the ranges as the card's file has them."""
    rows = []
    for most, part in ranges(found, bits):
        best = smallest(part, most, count)
        rows.append({"rows_max": most, "rates": [as_data(rate) for rate in best]})
        print(f"{bits} bits, up to {most} rows: {lost(best, part):.3f} times as long as the best of all")
        for rate in best:
            print("   ", rate.tiling, *(f"{name} {getattr(rate, name):.2f}" for name in PARTS))
        now = next(rates for rows, rates in PACKED_STREAMS[bits] if rows == most)
        print(f"    now {lost(now, part):.3f} times")
    return rows


def write(path: Path, bits: int, rows: Sequence[dict[str, Any]]) -> None:
    """Replace the ranges of a card's file that were swept."""
    data = json.loads(path.read_text())
    swept = {row["rows_max"]: row for row in rows}
    data["packed_streams"][str(bits)] = [swept.get(row["rows_max"], row) for row in data["packed_streams"][str(bits)]]
    path.write_text(json.dumps(data, indent=1) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", type=Path, nargs="+")
    parser.add_argument("--most", type=int, default=3, help="tilings of a set")
    parser.add_argument("--write", type=Path, help="the card's file, whose ranges are replaced")
    parser.add_argument("--keep", type=Path, help="write the figures that the test of `choice.py` reads")
    said = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for path in said.sweeps:
        rows = json.loads(path.read_text())["rows"]
        for bits in (4, 8):
            if found := timed(rows, bits):
                rows_now = show(found, bits, said.most)
                if said.write:
                    write(said.write, bits, rows_now)
                lines += kept(found, bits)
    if said.keep:
        heading = '{"tiling": "bm r wg stages kb in_flight pair; us by per_tile",\n"rows": [\n'
        text = heading + ",\n".join(map(json.dumps, lines)) + "\n]}\n"
        said.keep.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
