"""How the tests spread over worker processes (`-n 2 --dist loadfile`).

File by file; but the cluster is one, so its scenarios stay together, and a server that several files talk to is started
once. Simulated pods get an address of their own in each worker, since their port is fixed.
"""

import os
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
os.environ.setdefault("WINDLASS_BENCH_POD_IP", f"127.0.0.{2 + int(WORKER)}")
TOGETHER = {
    "the cluster": ("tests/kind/",),
    "the server `short`": (
        *(f"tests/engine/api/test_{name}.py" for name in ("openapi_fuzz", "sampling", "module_command")),
        "tests/engine/bench/test_bench_serve.py",
        "tests/engine/test_instruction_set.py",
    ),
    "the server `keyed`": (
        *(f"tests/engine/api/test_{name}.py" for name in ("keys", "routes", "server")),
        "tests/engine/launch/test_prefix_offload.py",
    ),
    "the server `seeing`": ("tests/engine/api/test_vision.py", "tests/engine/test_traces.py"),
    "the server `busy`": ("tests/engine/api/test_load.py", "tests/engine/processes/test_hang.py"),
}

EACH_ALONE = ("tests/contract/test_methods.py",)
"""Files of minutes of a processor whose items share no fixture: no process has a whole one left at the end."""


class ByPlace(LoadScopeScheduling):
    """What stays in one process; marks would say it too, but xdist 3.8 cannot read its groups from pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in EACH_ALONE:
            return nodeid
        return next((name for name, starts in TOGETHER.items() if file.startswith(starts)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPlace:
    return ByPlace(config, log)
