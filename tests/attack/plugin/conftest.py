"""Each program is loaded once for all attacks of a worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile_server import Forks, Server, kubeconfig


@pytest.fixture(scope="session")
def plugin():
    one = Forks("windlass_kubectl.__main__")
    yield one
    one.close()


@pytest.fixture(scope="session")
def windlass():
    one = Forks("windlass.cli.main")
    yield one
    one.close()


@pytest.fixture
def run(plugin, tmp_path):
    """Run the plug-in against a server's answers."""

    def ran(answers: dict, *words: str, **how):
        with Server(answers) as server:
            kubeconfig(tmp_path, server)
            ended = plugin.run(tmp_path, *words, **how)
            ended.seen = server.seen
        return ended

    return ran
