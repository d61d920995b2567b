"""Tokenizes the workloads for a machine that has no tokenizer: `prepare_device.py OUT.json.gz --traces DIRECTORY`."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from windlass.bench import tokens, traces
from windlass.bench.traces import Trace

PROMPT_TOKENS, OUTPUT_TOKENS, ROWS = 768, 512, 200
WORKLOADS = (
    "agent",
    "chat",
    "code-edit-diff",
    "code-edit-message",
    "gsm8k",
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
WARM = {"gsm8k": "gsm8k-multi"}


def main() -> None:
    """Every workload that has a file; a code edit keeps its prompt's end, next to which the answer begins."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--traces", type=Path, required=True)
    arguments = parser.parse_args()
    encode = tokens.tokenizer("tekken")
    found: dict[str, list[tuple[list[int], list[int]]]] = {}
    for name in WORKLOADS:
        measured = rows(arguments.traces, name)
        found[name] = [(encode(row.prompt)[:PROMPT_TOKENS], encode(row.output)[:OUTPUT_TOKENS]) for row in measured]
        if name in WARM:
            earlier = traces.unshared(traces.read(arguments.traces / f"{WARM[name]}.jsonl.gz"), measured)
            found[f"{name} warm"] = [(encode(row.prompt), encode(row.output)) for row in earlier]
    arguments.out.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode()))
    print({name: len(listed) for name, listed in found.items()}, arguments.out.stat().st_size)


def rows(directory: Path, name: str) -> list[Trace]:
    """The first requests of a workload that have an answer."""
    path = directory / f"{name}.jsonl.gz"
    return [row for row in traces.read(path) if row.output][:ROWS] if path.exists() else []


if __name__ == "__main__":
    main()
