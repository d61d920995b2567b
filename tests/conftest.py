"""How these tests spread over worker processes (`-n 2 --dist loadgroup`).

The cluster is one, so its scenarios stay together; a server that several files talk to is started once; everything
else goes file by file. Pods that are played get an address of their own in each worker, since their port is fixed.
"""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHARED_SERVER = "short"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
os.environ.setdefault("WINDLASS_BENCH_POD_IP", f"127.0.0.{2 + int(WORKER)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before xdist reads the groups, which it does in a hook of its own that runs last."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    sharing = {item.path for item in ours if SHARED_SERVER in getattr(item, "fixturenames", ())}
    for item in ours:
        item.add_marker(pytest.mark.xdist_group(group(item.path, item.path in sharing)))


def group(file: Path, shares_server: bool) -> str:
    """The tests that run in one worker, one after another."""
    if file.is_relative_to(HERE / "kind"):
        return "cluster"
    return SHARED_SERVER if shares_server else file.relative_to(HERE).as_posix()
