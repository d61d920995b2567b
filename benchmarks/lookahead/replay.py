"""The replay table: every workload, ours against vLLM's n-gram and Arctic's suffix decoding, with the aims.

    python benchmarks/lookahead/replay.py [--traces DIRECTORY]… [--tokenizer tekken]

A workload without its file, and a drafter without its package, say "absent".
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from windlass.bench import report
from windlass.bench.replay import Row
from windlass.table import plain

HERE = Path(__file__).parent
WORKLOADS = (
    "agent",
    "chat",
    "code-edit-diff",
    "code-edit-message",
    "gsm8k",
    "gsm8k-multi",
    "humaneval",
    "repeat-25",
    "repeat-50",
    "repeat-100",
    "specbench-math",
    "specbench-rag",
    "specbench-summarization",
    "specbench-translation",
    "templated",
)
WARM = (("gsm8k", "gsm8k-multi"),)
LIMITS = (6, 16)
RIVALS = ("ngram", "suffix")
HEADINGS = (
    "workload",
    "K",
    "drafter",
    "tokens/step",
    "drafted/step",
    "acceptance",
    "propose µs",
    "update µs",
    "MiB",
    "verdict",
)


def plans(directories: list[Path], tokenizer: str) -> Iterator[tuple[str, report.Plan | None]]:
    """A plan a workload, cold then warm; None where its file is not in any directory."""
    for workload, warm in [*((name, None) for name in WORKLOADS), *WARM]:
        files = [found(directories, name) for name in (workload, warm) if name]
        if None in files:
            yield workload + (" (warm)" if warm else ""), None
            continue
        paths = [path for path in files if path]
        yield workload, report.Plan(paths[:1], ["both", *RIVALS], tokenizer, LIMITS, paths[1:])


def found(directories: list[Path], workload: str) -> Path | None:
    """The file of a workload in the first directory that has it."""
    paths = (directory / f"{workload}.jsonl.gz" for directory in directories)
    return next((path for path in paths if path.exists()), None)


def verdict(ours: Row, rivals: list[Row]) -> str:
    """Ours against the faster rival: speed, drafts, and half the drafts where fewer than half of its are accepted."""
    measured = [row for row in rivals if row.tokens_per_step is not None]
    if not measured or ours.tokens_per_step is None or ours.drafted_per_step is None:
        return report.ABSENT
    best = max(measured, key=lambda row: row.tokens_per_step or 0.0)
    share = drafted(ours) / max(drafted(best), 1e-9)
    aim = 0.5 if (best.acceptance or 0.0) < 0.5 else 1.0
    faster = "as fast as" if ours.tokens_per_step >= (best.tokens_per_step or 0.0) else "SLOWER than"
    return f"{faster} {best.drafter}; {share:.2f} of its drafts, aim {aim:.1f}{'' if share <= aim else ' MISSED'}"


def drafted(row: Row) -> float:
    """Drafted tokens of the whole workload."""
    return (row.drafted_per_step or 0.0) * (row.steps or 0)


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """Rows as text, the verdict with ours."""
    for row in rows:
        rivals = [one for one in rows if one.drafter in RIVALS and same(one, row)]
        figures = [
            row.tokens_per_step,
            row.drafted_per_step,
            row.acceptance,
            row.propose_us_p50,
            row.update_us_p50,
            row.memory_mib,
        ]
        words = [report.ABSENT if figure is None else f"{figure:.3f}".rstrip("0").rstrip(".") for figure in figures]
        judged = verdict(row, rivals) if row.drafter == "both" else ""
        yield [row.workload, str(row.num_speculative_tokens), row.drafter, *words, judged]


def same(one: Row, other: Row) -> bool:
    """Whether two rows measure the same thing."""
    return (one.workload, one.num_speculative_tokens) == (other.workload, other.num_speculative_tokens)


def main() -> None:
    """Print the table as it grows, then how long it took."""
    asked = argparse.ArgumentParser(description="the replay table")
    asked.add_argument("--traces", type=Path, action="append", default=[])
    asked.add_argument("--tokenizer", default="tekken")
    words = asked.parse_args()
    began = time.perf_counter()
    table: list[list[str]] = []
    for workload, plan in plans([*words.traces, HERE / "traces"], words.tokenizer):
        print(f"▸ {workload}", file=sys.stderr, flush=True)
        table += [[workload, "", *[report.ABSENT] * 8]] if plan is None else list(lines(list(report.rows(plan))))
    print("\n".join(plain([HEADINGS, *table])))
    seconds = time.perf_counter() - began
    print(f"\n{platform.machine()}, Python {platform.python_version()}, tokenizer {words.tokenizer}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
