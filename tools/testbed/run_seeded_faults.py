"""`make test-seeded-faults`: faults of one line, one for each fast suite, and whether the tests find them.

    python tools/testbed/run_seeded_faults.py [SUITE …]

Each fault was chosen before the tests were looked at that would find it. In a copy of the committed tree, the tests of
its row pass without the fault; with it, the suite's input is another one, and they fail. Exits 1 where a suite would be
skipped, or no test finds the fault.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.paths import REPOSITORY
from windlass_testbed.suites import machine
from windlass_testbed.suites.stamps import files_of
from windlass_testbed.suites.table import SUITES

PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider")
TYPES = (sys.executable, "-m", "mypy")
FELL = (1, 2)
"""Exit statuses of pytest and mypy for a failure, and for files that cannot be read as tests or as Python."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of a file, the wrong line in its place, and the command of a suite that must fail then."""

    suite: str
    file: str
    line: str
    wrong: str
    command: tuple[str, ...]


FAULTS = (
    Fault(
        "contract",
        "server/src/windlass/supervisor/board.py",
        '"state": license_.state,',
        '"status": license_.state,',
        (*PYTEST, "tests/contract/test_server_facts.py"),
    ),
    Fault(
        "attack",
        "lib/base/src/windlass_base/front/peers.py",
        "if known.connections >= self.limits.connections_per_peer:",
        "if known.connections >= 10 * self.limits.connections_per_peer:",
        (*PYTEST, "tests/attack/tls/test_half_handshakes.py"),
    ),
    Fault(
        "testbed",
        "tools/testbed/src/windlass_testbed/release/listing.py",
        "if path.is_file() and not path.is_symlink())",
        "if path.is_file())",
        (*PYTEST, "tools/testbed/tests/release"),
    ),
    Fault(
        "shared",
        "lib/sizing/src/windlass_sizing/placement/formula.py",
        "fewest = max(1, math.ceil(required_gib / gpu_gib))",
        "fewest = max(1, math.floor(required_gib / gpu_gib))",
        (*PYTEST, "lib/sizing/tests/test_formula.py"),
    ),
    Fault(
        "operator",
        "operator/src/windlass_operator/status/replicas.py",
        "sum(pod.is_ready for pod in self.pods) >= self.size",
        "sum(pod.is_ready for pod in self.pods) > 0",
        (*PYTEST, "operator/tests/status/test_replicas.py"),
    ),
    Fault(
        "server",
        "server/src/windlass/front/limits/decide.py",
        "requests_used >= limits.requests:",
        "requests_used > limits.requests:",
        (*PYTEST, "server/tests/front/limits"),
    ),
    Fault(
        "license",
        "license_server/src/windlass_license/rules/gate.py",
        "if _expiry(license_, gpu) <= now)",
        "if _expiry(license_, gpu) < now)",
        (*PYTEST, "license_server/tests/test_gate.py"),
    ),
    Fault(
        "console",
        "clients/console/src/windlass_console/http/guard.py",
        'if site not in ("none", "same-origin")',
        'if site not in ("none", "same-origin", "same-site")',
        (*PYTEST, "clients/console/tests/test_guard.py"),
    ),
    Fault(
        "house",
        "tools/testbed/src/windlass_testbed/suites/table.py",
        '("crds/*", "contract attack testbed shared operator kind apiserver")',
        '("crds/*", "contract attack testbed shared kind apiserver")',
        (*PYTEST, "tests/house/test_suites_table.py"),
    ),
    Fault(
        "check",
        "lib/sizing/src/windlass_sizing/placement/formula.py",
        "def min_gpus(self, gpu_gib: float) -> int | None:",
        "def min_gpus(self, gpu_gib: float) -> int:",
        TYPES,
    ),
    # No import leads to this file: only the table of suites knows whose input it is.
    Fault(
        "contract",
        "charts/windlass/files/dashboards/licenses.json",
        "max(windlass_license_gpus_live)",
        "max(windlass_license_live_gpus)",
        (*PYTEST, "tests/contract/test_metrics_page.py"),
    ),
)


@contextmanager
def copy() -> Iterator[Path]:
    """Check the last commit out in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="windlass-faults-") as folder:
        tree = Path(folder) / "tree"
        git = ("git", "-C", REPOSITORY, "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", tree], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)


def status(tree: Path, command: tuple[str, ...]) -> int:
    """Run a command on the copy's own sources and return its exit status."""
    installed = (Path(one) for one in sys.path if Path(one).is_relative_to(REPOSITORY) and one.endswith("/src"))
    sources = ":".join(str(tree / one.relative_to(REPOSITORY)) for one in installed)
    # Compiled files are told from stale ones by second and size, and a fault may keep both.
    environment = {**os.environ, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False).returncode


def judged(tree: Path, fault: Fault) -> tuple[str, bool, str]:
    """Return the suites that would run, whether the fault's is one of them, and what its command shows."""
    file = tree / fault.file
    text = file.read_text(encoding="utf-8")
    if text.count(fault.line) != 1:
        raise SystemExit(f"{fault.file} has the line of its fault {text.count(fault.line)} times: {fault.line}")
    before = machine.digests(tree)
    clean = status(tree, fault.command)
    file.write_text(text.replace(fault.line, fault.wrong), encoding="utf-8")
    after = machine.digests(tree)
    runs = [suite.name for suite in SUITES if files_of(suite, before) != files_of(suite, after)]
    faulty = status(tree, fault.command)
    file.write_text(text, encoding="utf-8")
    found = "found" if faulty in FELL else "not found"
    return " ".join(runs), fault.suite in runs, f"fails without the fault ({clean})" if clean else found


def main(suites: list[str]) -> int:
    """Try each fault, or those of some suites, and print a table."""
    held = True
    print("| suite | fault in | suites that would run | |\n| --- | --- | --- | --- |", flush=True)
    with copy() as tree:
        for fault in (one for one in FAULTS if one.suite in suites or not suites):
            runs, is_run, seen = judged(tree, fault)
            held &= is_run and seen == "found"
            print(f"| {fault.suite} | {fault.file} | {runs} | {seen if is_run else 'skipped'} |", flush=True)
    return int(not held)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
