"""Whether one card's measurements predict another card, where the data sheets' ratios scale what was fitted.

    PYTHONPATH=sizing/src python benchmarks/predictions/carried.py [--points POINTS.jsonl …] [--table FILE.md]

The numbers of a card and the factors of the methods are fitted to the rows of one card alone. Its bandwidth and its
operations a second are scaled to the other card; times that the host sets stay. Every row of the other card is then
held out: the card was not fitted, and most shapes were not. It needs numpy, as the fit does.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import fit
from windlass_sizing.speed.table import CardSpeed, MethodSpeed

AIMS = {"ms a token": 15.0, "time to first token": 25.0}
"""Percent that a held out figure may be off."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A card by NVIDIA's data sheet."""

    gb_s: float
    tflops: float  # bfloat16, dense


SHEETS = {"H100": Sheet(3350, 989), "H200": Sheet(4800, 989)}
"""Both SXM; https://www.nvidia.com/en-us/data-center/h100 and …/h200."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A row of the other card, and by how many percent the prediction is off."""

    row: fit.Row
    percent: float
    is_same_shape: bool


def carried(card: CardSpeed, source: str, target: str) -> CardSpeed:
    """One card's numbers for another one."""
    here, there = SHEETS[source], SHEETS[target]
    return replace(
        card,
        read_gb_s=card.read_gb_s * there.gb_s / here.gb_s,
        prompt_tflops=card.prompt_tflops * there.tflops / here.tflops,
    )


def missed(every: Sequence[fit.Row], source: str, target: str) -> list[Missed]:
    """Every row of the target whose method was fitted on the source."""
    chosen = [row for row in every if row.card == source and row.shape in fit.FITTED]
    cards, methods = fit.fit(chosen)
    card, shapes = carried(cards[source], source, target), {row.shape for row in chosen}
    return [one(row, card, methods[row.method], shapes) for row in every if row.card == target if row.method in methods]


def one(row: fit.Row, card: CardSpeed, method: MethodSpeed, shapes: set[str]) -> Missed:
    """The error of one row."""
    return Missed(row, 100 * fit.missed(row, card, method), row.shape in shapes)


def groups(found: Sequence[Missed]) -> Iterator[tuple[str, str, list[float]]]:
    """Errors by figure: all, of shapes that were fitted on the other card and of others, then by method and load."""
    by: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in found:
        if each.row.figure not in AIMS:
            continue
        kind = "shapes fitted on the other card" if each.is_same_shape else "other shapes"
        for name in ("all", kind, f"method {each.row.method}", each.row.load):
            by[each.row.figure, name].append(each.percent)
    yield from ((figure, name, misses) for (figure, name), misses in by.items())


def lines(source: str, target: str, found: Sequence[Missed]) -> Iterator[str]:
    """A table of one direction."""
    yield f"\nFitted on {source}, predicted on {target}:\n"
    yield "| figure | rows of | count | within aim | median error, % | nine of ten within, % | largest, % | mean, % |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for figure, name, misses in sorted(groups(found), key=lambda group: group[0]):
        ranked = sorted(map(abs, misses))
        kept = sum(miss <= AIMS[figure] for miss in ranked)
        nine, middle = ranked[-(-9 * len(ranked) // 10) - 1], ranked[len(ranked) // 2]
        mean = sum(misses) / len(misses)
        yield (
            f"| {figure} | {name} | {len(ranked)} | {kept} (aim {AIMS[figure]:.0f} %) | {middle:.1f} | {nine:.1f} "
            f"| {ranked[-1]:.1f} | {mean:+.1f} |"
        )


def whole(source: str, found: Sequence[Missed]) -> Iterator[str]:
    """Every row."""
    yield f"\n| fitted on {source}: shape | method | load | figure | measured | predicted | error, % |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in found:
        row, predicted = each.row, each.row.measured * (1 + each.percent / 100)
        where = f"{row.shape} | {row.method} | {row.load} | {row.figure}"
        yield f"| {where} | {row.measured:.3g} | {predicted:.3g} | {each.percent:+.1f} |"


def main() -> None:
    """Both directions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=Path, nargs="*", default=[], help="files of run.sh beside results/")
    parser.add_argument("--table", type=Path, help="every row of both directions, as Markdown")
    wanted = parser.parse_args()
    every = [*fit.rows(), *(row for path in wanted.points for row in fit.of_points(path))]
    known = sorted({row.card for row in every} & set(SHEETS))
    kept: list[str] = []
    for source, target in ((a, b) for a in known for b in known if a != b):
        found = missed(every, source, target)
        print("\n".join(lines(source, target, found)))
        kept += whole(source, found)
    if wanted.table:
        wanted.table.write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
