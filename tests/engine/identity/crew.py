"""Processes side by side that do the parts of a long run, and the file that keeps what is done."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks/processes"))

import keeper
from identity_parts import Answer, Part, Question

Main = Callable[..., None]


class State:
    """Answers by the fingerprint of their question, a JSON line each; without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Answer] = {}
        if path and path.exists():
            for line in path.read_text().splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            values = json.loads(line)
        except ValueError:
            return  # the run was killed in the middle of a line
        by_batch = {name: {int(key): value for key, value in values[name].items()} for name in Answer.BY_BATCH}
        self._known[values["of"]] = Answer(**by_batch, preempted=values["preempted"], cpu_s=values["cpu_s"])

    def get(self, fingerprint: str) -> Answer | None:
        """The answer, when it is known."""
        return self._known.get(fingerprint)

    def keep(self, fingerprint: str, part: Part, answer: Answer) -> None:
        """Write it, so that a run that is killed can go on."""
        if self._path:
            with self._path.open("a") as file:
                line = json.dumps({"of": fingerprint, "part": asdict(part), **asdict(answer)})
                file.write(f"\n{line}\n")  # the line before may be half of one


@dataclass
class Member:
    """One process, and what it is at."""

    pipe: Connection
    process: Any
    at: Question | None = None
    engine: object = None


def pick(left: list[Question], engine: object) -> Question:
    """The longest part for the engine that a process has, else for the engine with the most to do."""
    mine = [one for one in left if one.part.engine == engine]
    if not mine:
        totals: dict[object, float] = {}
        for one in left:
            totals[one.part.engine] = totals.get(one.part.engine, 0) + one.weight
        most = max(totals, key=lambda key: totals[key])
        mine = [one for one in left if one.part.engine == most]
    return max(mine, key=lambda one: one.weight)


def side_by_side(
    asked: list[Question], processes: int, main: Main, model: str, *, broken: bool
) -> Iterator[tuple[Question, Answer]]:
    """Every question with its answer, as they come; `main` is what each process does.

    Raises:
        RuntimeError: a process ended, or its engine failed.
    """
    left = list(asked)
    members = [_started(main, model, broken) for _ in range(min(processes, len(left)))]
    try:
        for member in members:
            _next(member, left)
        while busy := {member.pipe: member for member in members if member.at}:
            for ready in wait(list(busy)):
                member = busy[ready]  # type: ignore[index]
                question, found = member.at, _answer(member)
                _next(member, left)
                if question:
                    yield question, found
    finally:
        for member in members:
            if member.at:
                member.process.terminate()
            member.process.join()


def _started(main: Main, model: str, broken: bool) -> Member:
    context = multiprocessing.get_context("fork")  # the engine may be imported already
    ours, theirs = context.Pipe()
    # No daemon: a keeper stands before the engine, and ends it and all that it started.
    process = context.Process(target=_kept, args=(main, theirs, model), kwargs={"broken": broken})
    process.start()
    theirs.close()
    return Member(ours, process)


def _kept(main: Main, pipe: Connection, model: str, *, broken: bool) -> None:
    keeper.keep(patience_s=0)
    main(pipe, model, broken=broken)


def _next(member: Member, left: list[Question]) -> None:
    member.at = pick(left, member.engine) if left else None
    member.pipe.send(member.at)
    if member.at:
        left.remove(member.at)
        member.engine = member.at.part.engine


def _answer(member: Member) -> Answer:
    try:
        found, cpu_s = member.pipe.recv()
    except EOFError:
        raise RuntimeError(f"the process at {member.at and member.at.part} ended without a word") from None
    if not isinstance(found, Answer):
        raise RuntimeError(f"the engine failed at {member.at and member.at.part}:\n{found}")
    return replace(found, cpu_s=cpu_s)


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))
