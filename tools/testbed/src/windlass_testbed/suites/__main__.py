"""Run the suites of a make target unless their input has passed: `python -m windlass_testbed.suites TARGET -- COMMAND`.

A suite's test folders are appended to the command. FORCE=1 runs every suite.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.paths import REPOSITORY, Paths, paths
from windlass_testbed.suites import machine, recorder, stamps
from windlass_testbed.suites.stamps import Input, Record, Stamp
from windlass_testbed.suites.table import SUITES, Suite

FORCE = "FORCE"
SHORT = 12
USAGE = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where suites run: a checkout, the caches of this machine, and the environment."""

    root: Path
    paths: Paths
    environment: Mapping[str, str]


def run(place: Place, suite: Suite, command: Sequence[str]) -> int:
    """Run a suite unless its input has passed; stamp the input when the run shows it. Return the exit status."""
    before = machine.read_input(place.root, place.paths, suite, command, place.environment)
    earlier = machine.read_stamps(place.paths, suite)
    same = next((stamp for stamp in earlier if stamp.key == before.key), None)
    if same and not place.environment.get(FORCE):
        print(skipped_line(suite, same), flush=True)
        return 0
    print(f"▸ suite {suite.name}, input {before.key[:SHORT]}", flush=True)
    started = time.monotonic()
    status, record = _execute(place, suite, command)
    if status:
        return status
    after = machine.read_input(place.root, place.paths, suite, command, place.environment)
    summary = f"{record.summary if record else 'passed'} in {time.monotonic() - started:.2f}s"
    last = None if place.environment.get(FORCE) or not earlier else earlier[-1]
    if reason := not_stamped(place, suite, (before, after), record, last):
        print(f"suite {suite.name} is not stamped, so it runs again: {reason}\n{summary}", flush=True)
        return 0
    passed = record.passed if record else 0
    machine.write_stamp(place.paths, suite, Stamp(before.key, machine.now(), passed, summary))
    return 0


def not_stamped(
    place: Place, suite: Suite, inputs: tuple[Input, Input], record: Record | None, last: Stamp | None
) -> str:
    """Return why a run that passed is not stamped; empty where it is."""
    reason = stamps.obstacle(*inputs)
    if reason or not suite.is_pytest:
        return reason
    return stamps.fault(suite, record, machine.digests(place.root), last)


def _execute(place: Place, suite: Suite, command: Sequence[str]) -> tuple[int, Record | None]:
    with tempfile.TemporaryDirectory(prefix="windlass-suite-") as folder:
        target = Path(folder) / "record.json"
        recording = {recorder.RECORD: str(target), "PYTEST_PLUGINS": recorder.__name__} if suite.is_pytest else {}
        environment = {**place.environment, **recording}
        status = subprocess.run([*command, *suite.tests], cwd=place.root, env=environment, check=False).returncode
        return status, machine.read_record(target)


def skipped_line(suite: Suite, stamp: Stamp) -> str:
    """Return the line of a suite that is skipped; it ends with pytest's summary of the run that passed."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp.passed_at))
    return (
        f"suite {suite.name} is skipped (FORCE=1 runs it): input {stamp.key[:SHORT]} passed on {when}: {stamp.summary}"
    )


def main(words: list[str]) -> int:
    """Run every suite of a target, also after one that failed; return the first failure's exit status."""
    suites = [suite for suite in SUITES if suite.target in words[:1]]
    command = words[2:]
    if not suites or words[1:2] != ["--"] or not command:
        targets = ", ".join(dict.fromkeys(suite.target for suite in SUITES))
        print(f"usage: python -m windlass_testbed.suites TARGET -- COMMAND; targets: {targets}", file=sys.stderr)
        return USAGE
    place = Place(REPOSITORY, paths(), os.environ)
    statuses = [run(place, suite, command) for suite in suites]
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
