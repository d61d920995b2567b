"""The tables of what `ablation.py` wrote: what each rule is worth, and what the policy is without the useless ones.

    python ablation_table.py OUT.jsonl [MORE.jsonl …]

A run with a rule off is compared with the runs with all rules before and behind it. The figure is the median of these
ratios over all workloads, with bounds by order statistics, each of which holds in 95 % or more. A rule whose bounds are
within 1 % of 1 everywhere may go (STYLE rule 20). The first row is the noise: nothing is off in it. Needs no engine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass_lookahead.policy import RULES

ALL, AGAIN, TOGETHER = "all rules", "all rules again", "off together"
BOUND = 0.01
PAIRS_MIN = 5
"""That bound a median."""
SETTLED_PAIRS = 8
BATCHES = (1, 10, 64)
Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Pair:
    """A run with something off: how many times as long a token took as with all rules."""

    variant: str
    workload: str
    batch: int
    ratio: float


def pairs_of(rows: Iterable[dict[str, Any]]) -> list[Pair]:
    """Of runs in the order in which they ran; other lines of the file are passed over.

    A variant that ran twice in a round has one pair of it: both runs share their runs with all rules.
    """
    runs = [row for row in rows if "variant" in row]
    found = []
    for place, one_round in itertools.groupby(runs, key=lambda row: (row["workload"], row["batch"], row["round"])):
        for variant, values in _ratios_of(list(one_round)).items():
            found.append(Pair(variant, place[0], place[1], statistics.geometric_mean(values)))
    return found


def _ratios_of(runs: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Each run of a round against the runs with all rules before and behind it; in a round cut off none is behind."""
    controls = [(at, row["ms"]) for at, row in enumerate(runs) if row["variant"] == ALL]
    ratios: dict[str, list[float]] = {}
    for at, row in enumerate(runs):
        before = [ms for place, ms in controls if place < at][-1:]
        behind = [ms for place, ms in controls if place > at][:1]
        if row["variant"] != ALL and before and behind:
            ratios.setdefault(row["variant"], []).append(row["ms"] / statistics.geometric_mean(before + behind))
    return ratios


def ratios(pairs: Iterable[Pair], variant: str, batch: int) -> list[float]:
    """Of one variant at one number of requests, all workloads together."""
    return [pair.ratio for pair in pairs if pair.variant == variant and pair.batch == batch]


def bounds(values: Sequence[float]) -> Bounds | None:
    """Of the median, each at 95 % or more; None where too few values bound none."""
    from on_device import upper_of_median

    if len(values) < PAIRS_MIN:
        return None
    return -upper_of_median([-value for value in values])[0], upper_of_median(values)[0]


def is_settled(pairs: Sequence[Pair], rule: str, batch: int) -> bool:
    """Whether more rounds would not change what is said of the rule."""
    found = ratios(pairs, rule, batch)
    interval = bounds(found)
    if interval is None or len(found) < SETTLED_PAIRS:
        return False
    low, high = interval
    return low > 1 + BOUND or (low >= 1 - BOUND and high <= 1 + BOUND)


def may_go(pairs: Sequence[Pair], rules: Sequence[str]) -> list[str]:
    """The rules that were measured, and without which no number of requests looks 1 % slower or is slower for sure."""
    measured = {pair.variant for pair in pairs}
    return [rule for rule in rules if rule in measured and not any(_is_needed(pairs, rule, one) for one in BATCHES)]


def _is_needed(pairs: Sequence[Pair], rule: str, batch: int) -> bool:
    found = ratios(pairs, rule, batch)
    interval = bounds(found)
    return interval is not None and (statistics.median(found) > 1 + BOUND or interval[0] > 1)


def verdict(intervals: Iterable[Bounds | None]) -> str:
    """Whether the rule earns its place, by the bounds at each number of requests at which it can matter."""
    found = [one for one in intervals if one]
    if any(low > 1 + BOUND for low, _ in found):
        return "stays: slower without it"
    if any(high < 1 - BOUND for _, high in found):
        return "goes: faster without it"
    if not found:
        return "open: too few pairs"
    if all(low >= 1 - BOUND and high <= 1 + BOUND for low, high in found):
        return "goes: moves nothing by 1 %"
    widest = max(max(1 - low, high - 1) for low, high in found)
    return f"open: moves nothing by more than {100 * widest:.1f} %"


def cell(values: Sequence[float]) -> str:
    """The median, its bounds, and of how many pairs."""
    if not values:
        return ""
    interval = bounds(values)
    shown = f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
    return f"{statistics.median(values):.3f}{shown}, {len(values)}"


def furthest(pairs: Sequence[Pair], variant: str) -> str:
    """The workload that takes longest without it."""
    places: dict[tuple[str, int], list[float]] = {}
    for pair in pairs:
        if pair.variant == variant:
            places.setdefault((pair.workload, pair.batch), []).append(pair.ratio)
    if not places:
        return ""
    (workload, batch), found = max(places.items(), key=lambda item: statistics.median(item[1]))
    return f"{statistics.median(found):.3f} ({workload} at {batch}, {len(found)})"


def table(pairs: Sequence[Pair]) -> list[str]:
    """Markdown: a line for each variant."""
    ran = {rule.name: "yes" if rule.ran_on_card else "no" for rule in RULES}
    batches = sorted({pair.batch for pair in pairs})
    named = {pair.variant for pair in pairs}
    variants = [one for one in (AGAIN, *ran, TOGETHER) if one in named]
    heads = ["off", "on a GPU before", *(f"{batch} at a time" for batch in batches), "slowest workload", "verdict"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for variant in variants:
        values = [ratios(pairs, variant, batch) for batch in batches]
        words = "noise" if variant == AGAIN else verdict(map(bounds, values))
        name = "nothing" if variant == AGAIN else variant
        lines.append(_line([name, ran.get(variant, ""), *map(cell, values), furthest(pairs, variant), words]))
    return lines


def cells(pairs: Sequence[Pair], variant: str) -> list[str]:
    """Markdown: workload by workload."""
    batches = sorted({pair.batch for pair in pairs})
    names = dict.fromkeys(pair.workload for pair in pairs if pair.variant == variant)
    lines = [_line(["workload", *(f"{batch} at a time" for batch in batches)]), _line(["---"] * (1 + len(batches)))]
    for name in names:
        here = [pair for pair in pairs if pair.workload == name]
        lines.append(_line([name, *(cell(ratios(here, variant, batch)) for batch in batches)]))
    return lines


def _line(parts: Sequence[str]) -> str:
    return f"| {' | '.join(parts)} |"


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file; argparse reports why it cannot be read."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as why:
        raise argparse.ArgumentTypeError(f"{path} was not written by ablation.py: {why}") from why


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=lambda text: read(Path(text)), nargs="+", help="written by ablation.py")
    files: list[list[dict[str, Any]]] = parser.parse_args().results
    pairs = [pair for rows in files for pair in pairs_of(rows)]
    for row in (row for rows in files for row in rows):
        if "card" in row:
            print(f"{row['card']}: ready after {row['ready_s']:.0f} s of {row['seconds']:.0f}; "
                  f"{row['output_tokens']} tokens a request")  # fmt: skip
        if "together" in row:
            print(f"off together: {', '.join(row['together']) or 'none'}")
    print("\n" + "\n".join(table(pairs)))
    if any(pair.variant == TOGETHER for pair in pairs):
        print("\n" + "\n".join(cells(pairs, TOGETHER)))


if __name__ == "__main__":
    main()
