"""Whether lookahead leaves the output as it is: on the CPU engine, greedy, in float32, token by token.

    python identity.py MODEL --traces DIRECTORY… [--rows 200] [--batches 1,4,16] [--modes 0,1,2] [--draws 20000]
                       [--state FILE] [--json FILE] [--processes N]

Prints a line a workload, mode and batch size, then `RESULT {json}`; exit code 1 when a token differs, when fewer than
30 % of the tokens on repeats and edits are accepted drafts, when a distribution differs, or when nothing was preempted
in the runs that must preempt. `--break-a-token` changes one accepted draft in each engine, which must turn the result
red. With `--state` a run that was killed goes on where it was. Exit code 2: an engine failed, so nothing was shown.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import crew
import identity_engine
from identity_parts import PROMPT_TOKENS, Answer, Line, Part, Prompt, Question, distribution, lines, questions, unlike
from windlass.bench import tokens, traces

TRACES = Path(__file__).resolve().parents[3] / "benchmarks/lookahead/traces"
OURS = tuple(
    f"windlass.engine.{name}"
    for name in (
        "lookahead.vllm_cpu",
        "lookahead.rows",
        "lookahead.drafting",
        "sampling.draft_rules",
        "sampling.spread",
    )
)


class Progress:
    """Answers as they come, the lines that they give, and how long the rest takes."""

    def __init__(self, asked: Sequence[Question], known: dict[Part, Answer], processes: int) -> None:
        self._weights = {one.part: one.weight for one in asked}
        self._processes, self._began_s, self._done = processes, time.monotonic(), 0.0
        self._left = sum(weight for part, weight in self._weights.items() if part not in known)
        self.known: dict[Part, Answer] = {}
        self.lines: list[Line] = []
        for part, answer in known.items():
            self._note(part, answer)

    def take(self, part: Part, answer: Answer) -> None:
        """One more answer, which was not known before."""
        self._left -= self._weights[part]
        self._done += self._weights[part]
        self._note(part, answer)
        gone_s = time.monotonic() - self._began_s
        left_s = gone_s / self._done * self._left
        done = f"{len(self.known)} of {len(self._weights)} parts, {gone_s / 60:.0f} min, about {left_s / 60:.0f} left"
        print(f"[{done}] {part.name}: {answer.cpu_s:.0f} s of processor time", flush=True)

    def _note(self, part: Part, answer: Answer) -> None:
        self.known[part] = answer
        for one in self.known if part.mode is None else (part,):
            if part.base in self.known and one.base == part.base and one.mode is not None and part.kind != "draws":
                for line in lines(one, self.known[part.base], self.known[one]):
                    self.lines.append(line)
                    print(line.text + (f"; {line.first}" if line.first else ""), flush=True)

    @property
    def chances(self) -> dict[str, float]:
        """Of the draws, empty when there were none."""
        drawn = {part: answer for part, answer in self.known.items() if part.kind == "draws"}
        return {
            name: value
            for part, answer in drawn.items()
            if part.mode is not None
            for name, value in distribution(drawn[part.base], answer).items()
        }


def makers(model: str, *, ours: bool) -> str:
    """Versions of what answers: the engine and the model, and with lookahead the files that draft."""
    found = hashlib.sha256((importlib.metadata.version("vllm")).encode())
    for path in (Path(model, "config.json"), *sorted(Path(model).glob("*.safetensors"))):
        found.update(path.read_bytes())
    for name in (*OURS, "windlass_lookahead._core") if ours else ():
        spec = importlib.util.find_spec(name)
        if not (spec and spec.origin):
            raise SystemExit(
                f"{name} is not installed beside this Python; install windlass-server and windlass-lookahead."
            )
        found.update(Path(spec.origin).read_bytes())
    return found.hexdigest()


def run(arguments: argparse.Namespace, asked: list[Question]) -> Progress:
    """Do what is not in the state file."""
    versions = {ours: makers(arguments.model, ours=ours) for ours in (False, True)}
    prints = {one.part: one.fingerprint(versions[one.part.mode is not None]) for one in asked}
    state = crew.State(None if arguments.break_a_token else arguments.state)
    known = {part: answer for part, mark in prints.items() if (answer := state.get(mark))}
    progress = Progress(asked, known, arguments.processes)
    if known:
        print(f"{len(known)} of {len(asked)} parts were done before", flush=True)
    left = [one for one in asked if one.part not in known]
    os.environ |= identity_engine.SETTINGS
    for question, answer in crew.side_by_side(
        left, arguments.processes, identity_engine.main, arguments.model, broken=arguments.break_a_token
    ):
        state.keep(prints[question.part], question.part, answer)
        progress.take(question.part, answer)
    return progress


def prompts_of(arguments: argparse.Namespace) -> dict[str, list[Prompt]]:
    """The workloads that have a file, in the model's tokens."""
    encode = tokens.tokenizer(f"{arguments.model}/tokenizer.json")
    found: dict[str, list[Prompt]] = {}
    for path in (path for directory in arguments.traces for path in sorted(directory.glob("*.jsonl.gz"))):
        name = path.name.removesuffix(".jsonl.gz")
        if name not in found and (not arguments.workloads or name in arguments.workloads):
            found[name] = [encode(row.prompt)[-PROMPT_TOKENS:] or [1] for row in traces.read(path)[: arguments.rows]]
    if not found:
        raise SystemExit(
            f"no trace file of {arguments.workloads or 'any workload'} in {', '.join(map(str, arguments.traces))}."
        )
    return found


def words() -> argparse.Namespace:
    """The command line."""

    def numbers(text: str) -> list[int]:
        return [int(one) for one in text.split(",")]

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--traces", type=Path, nargs="+", default=[TRACES])
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=[])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--batches", type=numbers, default=[1, 4, 16])
    parser.add_argument("--modes", type=numbers, default=[0, 1, 2])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=crew.cores(), help="engines side by side, one thread each")
    parser.add_argument("--state", type=Path, help="keeps what is done; a run with the same file goes on")
    parser.add_argument("--json", type=Path, help="the result, in a file too")
    parser.add_argument("--break-a-token", action="store_true")
    return parser.parse_args()


def reasons(progress: Progress) -> Iterator[str]:
    """Why the run is red."""
    yield from (line.fails for line in progress.lines if line.fails)
    if chances := progress.chances:
        yield from filter(None, [unlike(chances)])


def main() -> int:
    """The exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the engines would finish their parts
    arguments = words()
    began_s = time.monotonic()
    asked = questions(
        prompts_of(arguments), arguments.modes, arguments.batches, arguments.draws, whole=not arguments.break_a_token
    )
    try:
        progress = run(arguments, asked)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    red = list(reasons(progress))
    cpu_s = sum(answer.cpu_s for answer in progress.known.values())
    print(f"chi-square: {progress.chances}")
    print(
        f"{cpu_s / 60:.0f} min of processor time; "
        f"here {(time.monotonic() - began_s) / 60:.0f} min on {arguments.processes}"
    )
    result = {"red": red, "chances": progress.chances, "cpu_s": cpu_s, "processes": arguments.processes}
    names = list(dict.fromkeys(one.part.workload or one.part.kind for one in asked))
    table = sorted(progress.lines, key=lambda line: (names.index(line.workload), line.mode, line.batch))
    text = json.dumps(result | {"lines": [asdict(line) for line in table]})
    if arguments.json:
        arguments.json.write_text(text + "\n")
    print("\n".join(red) or "nothing differs")
    print("RESULT " + text)
    return bool(red)


if __name__ == "__main__":
    sys.exit(main())
