"""Each method that drafts: are its answers equal, and how fast does it decode at 1, 10 and 64 requests?

    python run.py OUT.jsonl --work FOLDER [--only none eagle3 …] [--texts new …] [--acceptance 0.6 0.8] [--seconds 540]
        [--small]

The target has Llama-3.1-8B's shape, the draft model Llama-3.2-1B's; `models/tiny/drafters.py` makes them and heads.
A head is right after a known share of tokens, so a method's own acceptance is that of the made files, not of trained
ones. An arm as `eagle3@0.6` has the engine accept drafts by chance, each with 0.6: the curve of a trained head.

One server at a time. A run goes on with the arms that have no row in OUT yet. Arms on two cards run only by name.
--small takes tiny shapes on a CPU: it tests the script and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asking
from servers import ROOT, Arm, Place, arms, serving
from table import PLAIN, TWO_CARDS, baseline

MAKER = ROOT / "models/tiny/drafters.py"
CLIENTS, SMALL_CLIENTS = (1, 10, 64), (1, 2)
TOKENS, SMALL_TOKENS = 128, 24
DRAFTED = 4
REPEATS = 3
LANE = 20
"""Ports of a lane."""
LEAST_S = 90
"""Time that an arm needs, its start included: with less the run ends and the next one goes on."""


def measured(arm: Arm, url: str, wanted: argparse.Namespace, plain: dict[str, Any] | None) -> dict[str, Any]:
    """An arm's row; `plain` are the answers without drafts."""
    tokens = SMALL_TOKENS if wanted.small else TOKENS
    found = asking.answers(url, wanted.vocabulary, SMALL_TOKENS if wanted.small else 64)
    row: dict[str, Any] = {"arm": arm.name, "words": list(arm.words)}
    if plain and "@" not in arm.name:
        row["unlike"] = asking.unlike(plain, found)
        row["equal"] = asking.is_equal(row["unlike"])
    clients = SMALL_CLIENTS if wanted.small else CLIENTS
    first = asking.load(url, wanted.vocabulary, "new", clients[-1], tokens, run=0)
    asking.speed(url, first, tokens)  # the first steps of each batch size are slower
    row["speed"] = [
        {"text": text, **asking.speed(url, asking.load(url, wanted.vocabulary, text, count, tokens, run), tokens)}
        for text in wanted.texts
        for count in clients
        for run in range(1, 2 if wanted.small else 1 + REPEATS)
    ]
    return row | ({"answers": found} if arm.name in PLAIN else {})


def made(work: Path, shape: str, device: str) -> None:
    """The models, unless they are there."""
    if not (work / "models/medusa/config.json").is_file():
        command = [sys.executable, str(MAKER), str(work / "models"), "--shape", shape, "--device", device]
        subprocess.run(command, check=True)


def rows(out: Path) -> dict[str, dict[str, Any]]:
    """What is there already, by arm; a failed one is tried again."""
    lines = out.read_text().splitlines() if out.exists() else []
    return {row["arm"]: row for row in map(json.loads, lines) if "failed" not in row}


def chosen(found: list[Arm], only: Sequence[str]) -> list[Arm]:
    """The named arms in the order of their names; without names all of those that one card runs."""
    by_name = {arm.name: arm for arm in found}
    return [by_name[name] for name in only] if only else [arm for arm in found if not arm.name.endswith(TWO_CARDS)]


def run(wanted: argparse.Namespace) -> int:
    """Every arm that has no row yet; how many could not be measured."""
    until, failed = time.monotonic() + wanted.seconds, 0
    made(wanted.work, "tiny" if wanted.small else "llama-8b", "cpu" if wanted.small else "cuda")
    wanted.vocabulary = json.loads((wanted.work / "models/eagle3/config.json").read_text())["draft_vocab_size"]
    place = Place(wanted.work, is_small=wanted.small)
    first = LANE * wanted.lane
    for at, arm in enumerate(chosen(arms(wanted.work / "models", DRAFTED, wanted.acceptance), wanted.only), first):
        there = rows(wanted.out)
        if arm.name in there:
            continue
        if time.monotonic() > until - LEAST_S:
            print(f"{arm.name}: no time left; the next run goes on here", flush=True)
            break
        begun = time.monotonic()
        with serving(arm, at, place, until - time.monotonic()) as url:
            started = round(time.monotonic() - begun, 1)
            plain = there.get(baseline(arm.name), {}).get("answers")
            row = measured(arm, url, wanted, plain) if url else _failed(arm, place)
        failed += "failed" in row
        with wanted.out.open("a") as file:
            file.write(json.dumps({**row, "start_s": started}) + "\n")
        print(json.dumps({key: value for key, value in row.items() if key not in ("answers", "words")}), flush=True)
    return failed


def _failed(arm: Arm, place: Place) -> dict[str, Any]:
    return {"arm": arm.name, "failed": place.log(arm).read_text(errors="replace")[-1500:]}


def main() -> int:
    """Read the command line, run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for models, caches and logs")
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--texts", nargs="+", choices=asking.TEXTS, default=asking.TEXTS)
    parser.add_argument("--acceptance", nargs="*", type=float, default=())
    parser.add_argument("--lane", type=int, default=0, help="of several runs beside one another, each with its WORK")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--small", action="store_true")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    wanted.work.mkdir(parents=True, exist_ok=True)
    return 1 if run(wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
