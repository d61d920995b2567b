"""Lists the places in tests whose result depends on how fast the machine is; `make check` runs it.

    python tools/wall_clock.py

It looks at every Python file of the suites for three things:

- a pause: `time.sleep` or `asyncio.sleep` of more than nothing,
- a measurement: an `assert` that compares a clock or a difference of clock readings,
- a short limit: a timeout or deadline under 30 seconds.

A place that no slow machine turns into a failure ends with a comment `# clock: why`. Standard library only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MARK = "# clock: "
SHORTEST_S = 30
CLOCKS = {*("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"), *("time", "time_ns", "process_time")}
SLEEPS = {"time.sleep", "asyncio.sleep", "sleep"}
LIMITS = {"timeout", "timeout_s", "deadline", "deadline_s", "patience_s", "hang_s", "limit_s", "at_most_s"}
# Where a limit is a positional argument: of a method's first, or of a function by its dotted name.
WAITING_METHODS = {"wait", "join", "result"}
WAITING_FUNCTIONS = {"asyncio.timeout": 0, "asyncio.wait_for": 1, "socket.create_connection": 1}
REMEDIES = {
    "pause": "wait for an event with windlass_testbed.waiting, or pass the clock in",
    "measurement": "decide on simulated time, or print the figure in a benchmark",
    "short limit": f"let the limit end a hang only: {SHORTEST_S} s or more",
}
# Files that pytest does not collect: they measure or flood for minutes, and print.
PROGRAMS = ("run_", "long_")
ALLOWED = {
    "tests/attack/operator/neighbours.py": "a measurement of `make attack-operator`",
    "tests/attack/license/floods.py": "a measurement of `make attack-license`",
}


class Offence(NamedTuple):
    """A place and the kind of fault there."""

    path: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {REMEDIES[self.kind]}"


def test_files() -> list[str]:
    """Return the Python files of all suites that pytest collects or that those import."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [path for path in listed if _is_test_file(Path(path))]


def _is_test_file(path: Path) -> bool:
    return "tests" in path.parts[:-1] and "src" not in path.parts and not path.name.startswith(PROGRAMS)


def offences(path: str, text: str) -> list[Offence]:
    """Return the faults of one file that have no comment with a reason."""
    tree, lines = ast.parse(text), text.splitlines()
    numbers = _numbers(tree)
    return sorted(
        {
            Offence(path, node.lineno, kind)
            for node, kind in _faults(tree, numbers)
            if not any(MARK in line for line in lines[node.lineno - 1 : node.end_lineno])
        }
    )


def _faults(tree: ast.Module, numbers: dict[str, float]) -> Iterator[tuple[ast.expr, str]]:
    elapsed = _elapsed(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if _dotted(node.func) in SLEEPS and _number(_first(node), numbers) != 0:
                yield node, "pause"
            elif any(0 < _number(limit, numbers) < SHORTEST_S for limit in _limits(node)):
                yield node, "short limit"
        elif isinstance(node, ast.Assert):
            for compare in (one for one in ast.walk(node.test) if isinstance(one, ast.Compare)):
                if any(_reads_clock(one) or _is_name(one, elapsed) for one in ast.walk(compare)):
                    yield compare, "measurement"


def _limits(call: ast.Call) -> Iterator[ast.expr]:
    yield from (word.value for word in call.keywords if word.arg in LIMITS)
    place = WAITING_FUNCTIONS.get(_dotted(call.func))
    if isinstance(call.func, ast.Attribute) and call.func.attr in WAITING_METHODS:
        place = 0
    if place is not None and len(call.args) > place:
        yield call.args[place]


def _dotted(function: ast.expr) -> str:
    """Return `module.name` or `name` of what is called, else nothing."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def _first(call: ast.Call) -> ast.expr:
    return call.args[0] if call.args else ast.Constant(None)


def _numbers(tree: ast.Module) -> dict[str, float]:
    """Return the module's constants that are numbers, by name."""
    numbers: dict[str, float] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            numbers |= {name: node.value.value for name in names if isinstance(node.value.value, int | float)}
    return numbers


def _number(value: ast.expr, numbers: dict[str, float]) -> float:
    """Return the seconds that an argument says in the file itself, else as many as there can be."""
    if isinstance(value, ast.Constant) and type(value.value) in (int, float):
        return float(value.value)
    return numbers.get(value.id, float("inf")) if isinstance(value, ast.Name) else float("inf")


def _elapsed(tree: ast.Module) -> set[str]:
    """Return the names that hold a difference of clock readings."""
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1)
    return {
        target.id
        for node in assigned
        if isinstance(target := node.targets[0], ast.Name)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Sub)
        and any(_reads_clock(one) for one in ast.walk(node.value))
    }


def _reads_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS


def _is_name(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def main() -> int:
    """Print every fault and return how the program ends."""
    found = {path: offences(path, (ROOT / path).read_text()) for path in test_files()}
    new = [one for path, faults in found.items() if path not in ALLOWED for one in faults]
    stale = [path for path in ALLOWED if not found.get(path)]
    for one in new:
        print(one)
    for path in stale:
        print(f"{path}: has no such place any more: take it out of ALLOWED in tools/wall_clock.py")
    if new:
        print(f"{len(new)} places. Where no slow machine changes a result, end the line with `{MARK}why`.")
    return 1 if new or stale else 0


if __name__ == "__main__":
    sys.exit(main())
