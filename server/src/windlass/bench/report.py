"""A replay from files to rows, and the rows as table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.bench import drafters, tokens, traces
from windlass.bench.replay import Request, Row, replay, row
from windlass.errors import UsageError

if TYPE_CHECKING:
    from windlass_lookahead import Options

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to replay."""

    trace_files: Sequence[Path]
    drafters: Sequence[str]
    tokenizer: str
    limits: Sequence[int]
    warm_files: Sequence[Path] = ()
    options: Options | None = None
    ngram: tuple[int, int] = (2, 4)


def rows(plan: Plan) -> Iterator[Row]:
    """A row for each limit, workload and drafter, and one more for its repeated requests where it has any."""
    unknown = [name for name in plan.drafters if name not in drafters.NAMES]
    if unknown:
        raise UsageError(f"--drafter {unknown[0]} is not known; choose of {', '.join(drafters.NAMES)}.")
    measured = [trace for path in plan.trace_files for trace in traces.read(path)]
    warm = traces.unshared((trace for path in plan.warm_files for trace in traces.read(path)), measured)
    encode = tokens.tokenizer(plan.tokenizer)
    warmed = requests(warm, encode)
    for workload, chosen in traces.workloads(measured).items():
        replayed = requests(chosen, encode)
        name = f"{workload} (warm)" if warmed else workload
        for limit in plan.limits:
            for drafter in plan.drafters:
                yield from measure(plan, drafter, name, limit, (warmed, replayed))


def measure(
    plan: Plan, drafter: str, workload: str, limit: int, texts: tuple[list[Request], list[Request]]
) -> Iterator[Row]:
    """The rows of one drafter on one workload; `texts`: warm requests, measured requests."""
    make = drafters.maker(drafter, limit, plan.options, plan.ngram)
    if make is None:
        yield Row(drafter, workload, limit)
        return
    total, repeated, memory_mib = replay(make, *texts)
    yield row(drafter, workload, limit, total, memory_mib)
    if repeated.requests:
        yield row(drafter, f"{workload} repeats", limit, repeated, memory_mib)


def requests(chosen: Sequence[traces.Trace], encode: tokens.Tokenizer) -> list[Request]:
    """Traces as token ids; prompt and output are encoded apart, as an engine sees them."""
    repeated = traces.repeats(chosen)
    return [
        Request(encode(trace.prompt), encode(trace.output), place in repeated) for place, trace in enumerate(chosen)
    ]


def as_json(found: Sequence[Row]) -> str:
    """One object a row."""
    return json.dumps([asdict(one) for one in found], indent=1)


def as_csv(found: Sequence[Row]) -> str:
    """A heading and a line a row; an absent drafter's cells say so."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings())
    writer.writerows(cells(one) for one in found)
    return text.getvalue().rstrip("\n")


def headings() -> list[str]:
    """The names of the columns."""
    return [field.name for field in fields(Row)]


def cells(one: Row) -> list[str]:
    """A row as text."""
    return [ABSENT if value is None else str(value) for value in asdict(one).values()]
