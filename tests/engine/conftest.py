"""Tests inside the CPU serving image, without a cluster: real torch, transformers and vLLM."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from windlass_testbed import daemon, serving
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths, paths

MARK = "RESULT "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-tiny", action="store_true", help="load every tiny model in vLLM, not just a sample")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.engine)


@dataclass(frozen=True)
class Engine:
    """The CPU serving image: runs Python in it, with the repository at /repo and chosen folders."""

    paths: Paths
    image: str

    def python(self, *words: str, mounts: dict[Path, str] | None = None, timeout_s: float = 900) -> str:
        """Run Python as root in a container without a network; return what it printed."""
        command = serving.python_command(self.image, words, mounts or {})
        env = os.environ | daemon.docker_env(self.paths)
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout_s, check=False)
        if done.returncode:
            pytest.fail(
                f"{' '.join(words)[:200]} exited with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}"
            )
        return done.stdout

    def result(self, *words: str, **options: Any) -> Any:
        """Run Python and return the JSON of its last line that begins with RESULT."""
        lines = [line for line in self.python(*words, **options).splitlines() if line.startswith(MARK)]
        return json.loads(lines[-1].removeprefix(MARK))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    where = paths()
    ours = not daemon.answers(where)
    try:
        yield Engine(where, serving.ensure(where))
    except BedError as error:
        pytest.fail(str(error))
    finally:
        if ours and not os.environ.get("WINDLASS_KEEP"):
            daemon.stop(where)
