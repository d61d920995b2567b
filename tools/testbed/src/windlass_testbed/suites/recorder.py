"""A pytest plug-in that records a suite's run: the files of the repository that it read, its items and their outcomes.

`python -m windlass_testbed.suites` loads it by PYTEST_PLUGINS and names the record's file in RECORD. A worker of xdist
passes the files that it read to the process that started it, which writes the record. An audit hook sees the files
that Python opens in these processes, imports included. It does not see what a subprocess or a container reads:
`tests/house/test_suites_table.py` searches the tests for names of files.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

RECORD = "WINDLASS_SUITE_RECORD"
BYTE_CODE = "__pycache__"
PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"


class Recorder:
    """The files, items and outcomes of one process of the run; in the first process, of all."""

    def __init__(self, target: Path, root: str) -> None:
        self.target = target
        self.root = root
        self.opened: set[tuple[str, str]] = set()
        self.files: set[str] = set()
        self.collected: set[str] = set()
        self.outcomes: dict[str, str] = {}
        self.collection_errors = 0

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Keep the name of a file that is opened to be read; cheap, since every open of the process comes here."""
        if event != "open" or not isinstance(arguments[0], str):
            return
        if isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY:
            return
        name = arguments[0]
        if not name.startswith("/"):
            self.opened.add((os.getcwd(), name))  # noqa: PTH109 - a Path costs more than the open itself
        elif name.startswith(self.root):
            self.opened.add(("/", name))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take the items of a run in one process; a pytest that a test starts is not recorded."""
        self.collected.update(item.nodeid for item in session.items)
        os.environ.pop(RECORD, None)
        os.environ.pop("PYTEST_PLUGINS", None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Take the items that a worker collected."""
        self.collected.update(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take the files that a worker read."""
        self.files.update(getattr(node, "workeroutput", {}).get("files", ()))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that cannot be collected."""
        self.collection_errors += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of an item's three phases; a skip is an outcome, too."""
        if report.failed:
            self.outcomes[report.nodeid] = FAILED
        elif report.skipped or report.when == "call":
            self.outcomes.setdefault(report.nodeid, SKIPPED if report.skipped else PASSED)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Name the files; a worker passes them on."""
        self.files.update(filter(None, (relative(self.root, *entry) for entry in list(self.opened))))
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["files"] = sorted(self.files)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Write the record, in the process that started the workers."""
        if hasattr(config, "workeroutput"):
            return
        outcomes = list(self.outcomes.values())
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        record = {
            "files": sorted(self.files),
            "collected": len(self.collected),
            "without_outcome": len(self.collected - set(self.outcomes)),
            "collection_errors": self.collection_errors,
            **{name: outcomes.count(name) for name in (PASSED, SKIPPED, FAILED)},
            "summary": ", ".join(text for text, _ in terminal.build_summary_stats_line()[0]) if terminal else "",
        }
        self.target.write_text(json.dumps(record))


def relative(root: str, folder: str, name: str) -> str:
    """Return the name of a file of the repository, its source for byte code; empty for a file of another place."""
    path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - as above
    if not path.startswith(root + os.sep):
        return ""
    if BYTE_CODE in path:
        try:
            path = importlib.util.source_from_cache(path)
        except ValueError:  # pytest's own byte code has a tag of its own: NAME.cpython-313-pytest-9.0.1.pyc
            cached = Path(path)
            path = str(cached.parent.parent / f"{cached.name.partition('.')[0]}.py")
    return path[len(root) + 1 :]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Record where a file is named for it, before the first conftest.py imports what it tests."""
    target = os.environ.get(RECORD)
    if target:
        recorder = Recorder(Path(target), str(early_config.rootpath))
        sys.addaudithook(recorder.audit)
        early_config.pluginmanager.register(recorder)
