"""Each file of tests leaves a row for the table of `make attack`: how many of its tests hold."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from windlass_testbed import attacks

HERE = Path(__file__).parent
collected: dict[Path, str] = {}
"""Files of this run, and the first line of each."""
tests: defaultdict[Path, set[str]] = defaultdict(set)
held: defaultdict[Path, set[str]] = defaultdict(set)
fell: defaultdict[Path, set[str]] = defaultdict(set)


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in (one for one in session.items if HERE in one.path.parents):
        words = (getattr(getattr(item, "module", None), "__doc__", None) or item.path.stem).splitlines()[0]
        collected[item.path] = words.rstrip(".")
        tests[item.path].add(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Passed means the call passed and neither set-up nor clean-up failed; what is skipped does not hold."""
    report = yield
    if report.failed:
        fell[item.path].add(item.nodeid)
    elif report.when == "call" and report.passed:
        held[item.path].add(item.nodeid)
    return report


def pytest_sessionfinish() -> None:
    for file, words in collected.items():
        good = len(held[file] - fell[file])
        attacks.record(str(file), words, "all tests hold", f"{good} of {len(tests[file])}", good == len(tests[file]))
