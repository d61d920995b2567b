"""Runs faults side by side on a bed, and prints what became of them: a table for people, JSON for programs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fault_bed import Bed, Fault, Result, watch
from kubelet_faults import word_for


def run(bed: Bed, faults: Sequence[Fault], workers: int) -> list[Result]:
    """Every fault once; those that take what others need run alone, at the end."""
    together = [fault for fault in faults if not fault.alone]
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda fault: one(bed, fault), together))
    return results + [one(bed, fault) for fault in faults if fault.alone]


def one(bed: Bed, fault: Fault) -> Result:
    """Inject, wait, remove."""
    word, name = word_for(fault), f"f-{fault.id}"
    started = time.monotonic()
    try:
        fault.inject(bed, name, word)
        result = watch(bed, fault, _name(bed, name, word), word, started)
    except Exception as error:  # a fault that cannot be injected is a failed row, not the end of the table
        result = Result(fault, word, "", f"not injected: {error}", time.monotonic() - started, None, False)
    print(line(result), flush=True)
    bed.remove(_name(bed, name, word))
    return result


def _name(bed: Bed, name: str, word: str) -> str:
    """The service's own name: a fault may add its word to it."""
    names = [row["metadata"]["name"] for row in bed.get("llm")["items"]]  # anew: the service has just been made
    return f"{name}-{word}" if f"{name}-{word}" in names else name


def line(result: Result) -> str:
    """One row."""
    since = "" if result.fault_seconds is None else f"{result.fault_seconds:.0f}"
    verdict = "ok" if result.ok else "WRONG"
    row = f"{result.fault.id:18} {result.reason or '-':24} {result.seconds:6.1f} {since:>6}  {verdict}"
    return row if result.ok else f"{row}\n    expected {result.fault.reason} with {result.word}: {result.message}"


INTRO = """# Faults and what they are called

`make faults` prints this page; it injects the fault of every row. Each fault plants a random word, and the condition's
message has to hold that word.

- *s from apply* counts from `kubectl apply` of the broken resource. Inspection, planning and the pod's own start are
  part of it.
- *s from fault* counts from the moment when scheduler, kubelet or container noted the trouble, by their clock of whole
  seconds. Where the operator itself finds the fault, it counts from the end of the inspection.
- On *kubelet* the fault is real. On *API server* the test writes pods' statuses and Events in the words of real
  kubelets and schedulers; *s from fault* counts from that write.

"""
AIM_S = 10.0


def page(rows: Sequence[tuple[str, Result]], measured: str) -> str:
    """docs/reference/faults.md."""
    return f"{INTRO}{measured}\n\n{summary([row for _, row in rows])}\n\n{markdown(rows)}"


def since_s(one: Result) -> float:
    """From the fault where somebody noted it, else from the apply."""
    return one.seconds if one.fault_seconds is None else one.fault_seconds


def summary(results: Sequence[Result]) -> str:
    """How many have the right word, and how soon."""
    right = [one for one in results if one.ok]
    late = ", ".join(f"{one.fault.id} {since_s(one):.0f} s" for one in right if since_s(one) > AIM_S)
    soon = sum(since_s(one) <= AIM_S for one in right)
    named = f"{len(right)} of {len(results)} faults have the right reason and their planted word. "
    return f"{named}{soon} of them have it within {AIM_S:.0f} s of the fault{f'; later: {late}' if late else ''}."


def markdown(rows: Iterable[tuple[str, Result]]) -> str:
    """The table of the docs."""
    head = [
        "| fault | what is wrong | where | reason | s from apply | s from fault | what takes the time |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    body = [
        f"| {one.fault.id} | {one.fault.what} | {where} | {one.reason or '-'}{'' if one.ok else ' **wrong**'} "
        f"| {one.seconds:.1f} | {'' if one.fault_seconds is None else f'{one.fault_seconds:.0f}'} | {one.fault.bound} |"
        for where, one in rows
    ]
    return "\n".join([*head, *body]) + "\n"
