"""Tests whose result depends on how fast the machine is.

The rule looks at every Python file of the suites for three things:

- a pause: `time.sleep` or `asyncio.sleep` of more than nothing,
- a measurement: an `assert` that compares a clock or a difference of clock readings,
- a short limit: a timeout or deadline under 30 seconds.

A place that no slow machine turns into a failure ends with a comment `# clock: why`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .tree import Offence, Tree

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


def places(tree: Tree) -> Iterator[Offence]:
    """A test waits for events; where no slow machine changes a result, its line ends with `# clock: why`."""
    for path in (path for path in tree.matching("*.py") if _is_test_file(Path(path))):
        found = list(faults(path, tree.text(path)))
        if path not in ALLOWED:
            yield from found
        elif not found:
            yield Offence(path, 1, "has no such place any more: take it out of ALLOWED in tools/house/wall_clock.py")


def faults(path: str, text: str) -> list[Offence]:
    """Return the faults of one file that have no comment with a reason."""
    tree, lines = ast.parse(text), text.splitlines()
    numbers = _numbers(tree)
    return sorted(
        {
            Offence(path, node.lineno, f"{kind}: {REMEDIES[kind]}")
            for node, kind in _faults(tree, numbers)
            if not any(MARK in line for line in lines[node.lineno - 1 : node.end_lineno])
        }
    )


def _is_test_file(path: Path) -> bool:
    """Whether pytest collects the file, or a collected one imports it."""
    return "tests" in path.parts[:-1] and "src" not in path.parts and not path.name.startswith(PROGRAMS)


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
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
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
