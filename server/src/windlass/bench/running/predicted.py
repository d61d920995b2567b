"""The plan's prediction beside what a benchmark measured, for users to see where it fails. Pure.

Measured are the medians of each server and load. The prediction takes the tokens in and out that the client counted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import Serving
from windlass_sizing.speed.predict import Load, Prediction, speed

from windlass.bench.running.matrix import Arm
from windlass.table import plain

FIGURES = (
    ("TTFT P50", "median_ttft_ms", "ttft_ms", 1),
    ("MS A TOKEN", "mean_tpot_ms", "ms_per_token", 2),
    ("REQ/S", "request_throughput", "requests_per_s", 2),
)
"""Heading, the client's field, the prediction's, digits."""
DRAFTING = ("--use-lookahead", "--speculative-config", "--cpu-draft-worker")
VALUES = ("--quantization", "--tensor-parallel-size", "--pipeline-parallel-size", "--dtype", "--max-model-len")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a server did under a load: medians over the rounds, and mean tokens of a request."""

    arm: Arm
    requests: int
    tokens_in: float
    tokens_out: float
    measured: dict[str, float]


@dataclass(frozen=True, slots=True)
class Planned:
    """The model and the card that serves it; a card without a name is none that was found."""

    facts: ModelFacts
    card: str


def predict(seen: Seen, planned: Planned) -> Prediction | str:
    """The prediction, or why there is none."""
    words = [part for word in seen.arm.words for part in word.split("=", 1)]
    if any(word in words for word in DRAFTING):
        return "no prediction with drafted tokens: their gain depends on the text"
    if not planned.card:
        return "no prediction for this machine: it has no GPU that is known by name"
    given = {name: words[words.index(name) + 1] for name in VALUES if name in words[:-1]}
    method = given.get("--quantization", "none")
    serving = Serving(
        int(given.get("--max-model-len", planned.facts.max_model_len)),
        tp=int(given.get("--tensor-parallel-size", 1)),
        pp=int(given.get("--pipeline-parallel-size", 1)),
        dtype=given.get("--dtype", "float16"),
        quantization=None if method == "none" else method,
        enforce_eager="--enforce-eager" in words,
    )
    found = speed(planned.facts, serving, planned.card)
    if isinstance(found, str):
        return found
    return found.under(Load(seen.requests, round(seen.tokens_in), max(2, round(seen.tokens_out))))


def table(rows: Sequence[Seen], planned: Planned) -> list[tuple[str, ...]]:
    """A line for each server and load: measured, predicted, and by how much the prediction is off."""
    names = [f"{name}{tail}" for name, *_ in FIGURES for tail in ("", " PREDICTED", " OFF %")]
    return [("SERVER", "AT ONCE", *names), *(_row(seen, predict(seen, planned)) for seen in rows)]


def _row(seen: Seen, found: Prediction | str) -> tuple[str, ...]:
    return (seen.arm.name, str(seen.requests), *(text for one in FIGURES for text in _figure(seen, found, *one[1:])))


def _figure(seen: Seen, found: Prediction | str, field: str, name: str, digits: int) -> tuple[str, str, str]:
    measured = seen.measured.get(field)
    shown = "-" if measured is None else f"{measured:.{digits}f}"
    if isinstance(found, str):
        return shown, "-", "-"
    value = float(getattr(found, name))
    return shown, f"{value:.{digits}f}", f"{100 * (value / measured - 1):+.0f}" if measured else "-"


def texts(rows: Sequence[Seen], planned: Planned) -> dict[str, str]:
    """The files: a table for people with the reasons below it, and the same as CSV."""
    found = table(rows, planned)
    reasons = dict.fromkeys(_reasons(rows, planned))
    explained = "Predicted by the plan, from measurements of other shapes; times in milliseconds."
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(found)
    return {
        "predictions.txt": "\n".join([*plain(found), "", explained, *reasons, ""]),
        "predictions.csv": out.getvalue(),
    }


def _reasons(rows: Sequence[Seen], planned: Planned) -> Iterator[str]:
    for seen in rows:
        found = predict(seen, planned)
        if isinstance(found, str):
            yield f"{seen.arm.name}: {found}"
