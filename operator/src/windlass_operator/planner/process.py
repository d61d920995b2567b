"""The program that plans (`python -m windlass_operator.planner.process`), one question after another.

What is planned from was written by users and read from files that anybody may have written. A plan that never ends, or
takes all memory, ends this process alone; `pool.py` starts it, asks it and ends it. No I/O but its two pipes.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import msgspec
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, Placement, Plan, Refusal
from windlass_api.plan.record import as_recorded
from windlass_sizing.model.facts import ModelFacts

LENGTH_BYTES = 4  # before each message, big-endian
MEMORY_BYTES = 128 * 1024**2  # beside the program itself; a plan for 1,000 nodes needs under 10 MiB
NICENESS = 5  # the event loop and the watches come first


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan is made from; `spec` as the API server sent it; without an inventory that of the question before."""

    spec: dict[str, Any]
    facts: dict[str, Any]
    inventory: Inventory | None
    keep: Placement | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, or why there is none, or how planning failed."""

    plan: Plan | None = None
    refusal: Refusal | None = None
    error: str = ""


def answer(question: Question) -> Answer:
    """The plan, or what came of it."""
    try:
        spec, facts = LLMServiceSpec.model_validate(question.spec), ModelFacts.from_dict(question.facts)
        decided = decide(spec, facts, question.inventory or Inventory(), keep=question.keep)
        return Answer(refusal=decided) if isinstance(decided, Refusal) else Answer(plan=as_recorded(decided))
    except Exception as error:  # whatever a spec or facts make it do, it is told of this one question
        return Answer(error=f"{type(error).__name__}: {error}"[:1024])


def framed(message: object) -> bytes:
    """A message as it goes through a pipe."""
    raw = msgspec.json.encode(message)
    return len(raw).to_bytes(LENGTH_BYTES, "big") + raw


def main(questions: BinaryIO, answers: BinaryIO) -> None:
    """Say that it is up, then answer until there are no more questions."""
    answers.write(framed(Answer()))
    answers.flush()
    inventory: Inventory | None = None
    while len(head := questions.read(LENGTH_BYTES)) == LENGTH_BYTES:
        raw = questions.read(int.from_bytes(head, "big"))
        question = msgspec.json.decode(raw, type=Question)
        inventory = question.inventory or inventory
        answers.write(framed(answer(replace(question, inventory=inventory))))
        answers.flush()


def _limit_memory() -> None:
    """Above what the program has now."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no Path for one line
        pages = int(file.read().split()[5])  # data and stack
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    os.nice(NICENESS)
    _limit_memory()
    main(sys.stdin.buffer, sys.stdout.buffer)
