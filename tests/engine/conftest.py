"""Tests inside the CPU serving image, without a cluster: real torch, transformers and vLLM.

Where `--here` is said, and a test's file asks for nothing but `ServingEngine` has, this machine's own engine is taken.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from windlass_testbed import daemon, demo, serving
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths, paths

from .serving_engine import START_TIMEOUT_S, ServingEngine, answers

NETWORK = "windlass-engine-tests"
OTHERS = {"cpu": "on_card", "cuda": "on_cpu"}
"""The marker of what a device leaves out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-tiny", action="store_true", help="load every tiny model in vLLM, not just a sample")
    parser.addoption("--here", action="store_true", help="vLLM beside this Python, on a GPU or a CPU, not the image")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker(OTHERS[device(config)])]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    for item in items:
        item.add_marker(pytest.mark.engine)


def device(config: pytest.Config) -> str:
    """What the engine computes on: `cpu` or `cuda`."""
    if not config.getoption("--here"):
        return "cpu"
    from windlass.launch import probe

    return probe.engine_kind(os.environ)


@dataclass(frozen=True)
class Engine(ServingEngine):
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

    @contextmanager
    def serving(self, *words: str, mounts: dict[Path, str] | None = None, **variables: str) -> Iterator[str]:
        """Run a start command of the image, wait until it answers, and yield its address on 127.0.0.1."""
        with self.started(*words, mounts=mounts, **variables) as (name, host):
            address = f"http://{host}"
            if not answers(address, lambda: self._is_running(name)):
                pytest.fail(f"the server did not answer:\n{self.log(name)}")
            yield address

    @contextmanager
    def started(
        self, *words: str, mounts: dict[Path, str] | None = None, **variables: str
    ) -> Iterator[tuple[str, str]]:
        """Run a start command of the image; its container, and the host and port of its API here."""
        docker = partial(daemon.docker, self.paths)
        volumes = {str(REPOSITORY / "models/demo"): "/data/model:ro"}
        volumes |= {str(path): target for path, target in (mounts or {}).items()}
        flags = [word for source, target in volumes.items() for word in ("--volume", f"{source}:{target}")]
        known = {"WINDLASS_LICENSE_REQUIRED": "false", "VLLM_CPU_KVCACHE_SPACE": "1", **variables}
        flags += [word for name, value in known.items() for word in ("--env", f"{name}={value}")]
        if NETWORK not in docker("network", "ls", "--format", "{{.Name}}").split():
            docker("network", "create", NETWORK)  # our engine has no default bridge
        flags += ["--network", NETWORK, "--publish", "127.0.0.1::8501", "--shm-size", "1g", "--entrypoint", words[0]]
        name = docker("run", "--detach", *flags, self.image, *words[1:]).strip()
        try:
            ports = docker("inspect", "--format", "{{json .NetworkSettings.Ports}}", name)
            (port,) = json.loads(ports).get("8501/tcp") or pytest.fail(f"it ended at once:\n{self.log(name)}")
            yield name, f"127.0.0.1:{port['HostPort']}"
        finally:
            docker("rm", "--force", name)

    def ended(self, *words: str, mounts: dict[Path, str] | None = None, **variables: str) -> tuple[int, str]:
        """Run a start command that fails; its exit code and everything that it said."""
        with self.started(*words, mounts=mounts, **variables) as (name, _):
            deadline = time.monotonic() + START_TIMEOUT_S
            while self._is_running(name):
                if time.monotonic() > deadline:
                    pytest.fail(f"it runs on:\n{self.log(name)}")
                time.sleep(0.5)
            code = daemon.docker(self.paths, "inspect", "--format", "{{.State.ExitCode}}", name)
            return int(code), self.log(name, "all")

    def _is_running(self, name: str) -> bool:
        return daemon.docker(self.paths, "inspect", "--format", "{{.State.Running}}", name).strip() == "true"

    def container(self, url: str) -> str:
        """The container behind an address that `serving` gave."""
        listed = daemon.docker(self.paths, "ps", "--format", "{{.ID}} {{.Ports}}").splitlines()
        (found,) = [line.split()[0] for line in listed if f":{url.rpartition(':')[2]}->" in line]
        return found

    def load(self, url: str, *flags: str) -> dict[str, Any]:
        """Many clients at such an address, with their own program; its report."""
        pid = daemon.docker(self.paths, "inspect", "--format", "{{.State.Pid}}", self.container(url)).strip()
        words = ("--base-url", url, "--pid", pid, "-o", "json", *flags)
        command = [sys.executable, str(REPOSITORY / "server/bench/clients.py"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.stdout else pytest.fail(done.stderr[-4000:])

    def output(self, url: str) -> str:
        """Everything that the server behind such an address said."""
        return self.log(self.container(url), "all")

    def log(self, name: str, lines: str = "60") -> str:
        """The last lines of a container, of both streams."""
        command = ["/usr/bin/docker", "logs", "--tail", lines, name]
        env = os.environ | daemon.docker_env(self.paths)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False
        )
        return done.stdout

    def seen(self, folder: Path, target: str) -> str:
        """As the container calls it."""
        return target


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingEngine]:
    if request.config.getoption("--here"):
        from .local_engine import LocalEngine

        yield LocalEngine(tmp_path_factory.mktemp("here"), device(request.config))
        return
    where = paths()
    ours = not daemon.answers(where)
    try:
        yield Engine(where, serving.ensure(where))
    except BedError as error:
        pytest.fail(str(error))
    finally:
        if ours and not os.environ.get("WINDLASS_KEEP"):
            demo.delete(where)  # and with it a cluster that later tests made on our engine


@pytest.fixture(scope="session")
def short(engine: Engine) -> Iterator[str]:
    """The demo model with a short context, so that no request takes long; open to all. Its address."""
    flags = "--dtype float32 --max-model-len 128 --served-model-name demo"
    with engine.serving("windlass", "run", *flags.split()) as url:
        yield url
