"""Tests inside the CPU serving image, without a cluster: real torch, transformers and vLLM.

Where `--here` is said, and a test's file asks for nothing but `ServingEngine` has, this machine's own engine is taken.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from windlass_testbed import daemon, demo, serving, trace_receiver
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths, paths
from windlass_testbed.waiting import wait_until

from .api import own_commands
from .fork_server import ForkServer
from .serving_engine import START_TIMEOUT_S, ServingEngine, answers

NETWORK = "windlass-engine-tests"
KEYS = ("key-of-alice", "key-of-bob")
LIMITED_KEYS = """\
  - {name: few, key: sk-few-few-1, requestsPerMinute: 2}
  - {name: counted, key: sk-counted-1}
  - {name: leaver, key: sk-leaver-1}
  - {name: spender, key: sk-spender-1, tokensPerMinute: 400}
"""
PLACES, WAITING = 16, 64
STALL_S = 6
"""Seconds without a step that count as a hang: above the 5 s between two judgements, so a late one is no alarm."""
SHORT_LIMIT = 64
"""Requests at once that `short` takes: more than its tests ever send."""
TRACES_PORT = 4318
TRACES = {
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{TRACES_PORT}/v1/traces",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    "OTEL_BSP_SCHEDULE_DELAY": "200",
    "OTEL_SERVICE_NAME": "chat",
}
SEEING_KEY = "sk-secret"
MADE = "/repo/models/tiny/make.py"
ENGINE_CACHE = "/cache/vllm"
"""vLLM keeps there what it learns of a model class, for which it starts another Python: 10 s of processor a start."""
ONE_THREAD = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""Of everything here: two tests run at once on two cores. Two threads for each would spin while they wait for a core,
which doubles the processor time; and vLLM would bind every engine to the first core."""
SERVED = {"WINDLASS_LICENSE_REQUIRED": "false", "VLLM_CPU_KVCACHE_SPACE": "1", **ONE_THREAD}
"""Of every server here."""
OTHERS = {"cpu": "on_card", "cuda": "on_cpu"}
"""The marker of what a device leaves out."""
FIRST = tuple(
    f"tests/engine/processes/test_{name}.py" for name in ("api_processes", "api_processes_beside", "workers", "group")
)
"""Servers of many processes take 5 GiB each, two files of them 13. With servers of other files that was more than a
machine of 24 GiB has: it read its programs from the disk over and over, for minutes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-tiny", action="store_true", help="load every tiny model in vLLM, not just a sample")
    parser.addoption("--here", action="store_true", help="vLLM beside this Python, on a GPU or a CPU, not the image")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker(OTHERS[device(config)])]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    for item in items:
        item.add_marker(pytest.mark.engine)


def device(config: pytest.Config) -> str:
    """What the engine computes on: `cpu` or `cuda`."""
    if not config.getoption("--here"):
        return "cpu"
    from windlass.launch import probe

    return probe.engine_kind(os.environ)


def ensure_network(where: Paths) -> None:
    """Make the tests' network unless it is there: our engine has no default bridge.

    One worker at a time: an engine that is asked twice at once makes two of one name, and takes neither from then on.
    It keeps them over its end, so what earlier tests left is mended, too.
    """
    where.run.mkdir(parents=True, exist_ok=True)
    with (where.run / f"{NETWORK}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = daemon.docker(where, "network", "ls", "--no-trunc", "--format", "{{.Name}} {{.ID}}").splitlines()
        same = [line.split()[1] for line in found if line.split()[0] == NETWORK]
        if len(same) > 1:
            daemon.docker(where, "network", "rm", *same[1:])
        elif not same:
            daemon.docker(where, "network", "create", NETWORK)


@dataclass(frozen=True)
class Engine(ServingEngine):
    """The CPU serving image: runs Python in it, with the repository at /repo and chosen folders."""

    paths: Paths
    image: str
    cache: Path
    """The engine's, of all workers' servers."""
    forks: ForkServer | None = None

    def python(self, *words: str, mounts: dict[Path, str] | None = None, timeout_s: float = 900) -> str:
        """Run Python as root in a container without a network; return what it printed.

        In the serving image, that is a fork of a Python that has imported the engine.
        """
        run = self.forks.run if self.forks else self._alone
        code, out, errors = run(words, mounts or {}, timeout_s)
        if code:
            pytest.fail(f"{' '.join(words)[:200]} exited with {code}:\n{(out + errors)[-4000:]}")
        return out

    def _alone(self, words: tuple[str, ...], mounts: dict[Path, str], timeout_s: float) -> tuple[int, str, str]:
        command = serving.python_command(self.image, words, mounts, ONE_THREAD)
        env = os.environ | daemon.docker_env(self.paths)
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout_s, check=False)
        return done.returncode, done.stdout, done.stderr

    @property
    def serving_cache(self) -> dict[Path, str]:
        """The mount of a server's cache."""
        return {self.cache: ENGINE_CACHE}

    @contextmanager
    def serving(self, *words: str, mounts: dict[Path, str] | None = None, **variables: str) -> Iterator[str]:
        """Run a start command of the image, wait until it answers, and yield its address on 127.0.0.1."""
        with self.started(*words, mounts=mounts, **variables) as (name, host):
            address = f"http://{host}"
            if not answers(address, lambda: self.is_running(name)):
                pytest.fail(f"the server did not answer:\n{self.log(name)}")
            yield address

    @contextmanager
    def started(
        self, *words: str, mounts: dict[Path, str] | None = None, **variables: str
    ) -> Iterator[tuple[str, str]]:
        """Run a start command of the image; its container, and the host and port of its API here."""
        docker = partial(daemon.docker, self.paths)
        volumes = {str(REPOSITORY / "models/demo"): "/data/model:ro"}
        volumes |= {str(path): target for path, target in (self.serving_cache | (mounts or {})).items()}
        flags = [word for source, target in volumes.items() for word in ("--volume", f"{source}:{target}")]
        flags += [word for name, value in (SERVED | variables).items() for word in ("--env", f"{name}={value}")]
        ensure_network(self.paths)
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
            wait_until(lambda: not self.is_running(name), f"the end of {words}", START_TIMEOUT_S, 0.5)
            code = daemon.docker(self.paths, "inspect", "--format", "{{.State.ExitCode}}", name)
            return int(code), self.log(name, "all")

    def is_running(self, name: str) -> bool:
        """Whether a container runs."""
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


def of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """A folder of this run that its workers share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingEngine]:
    if request.config.getoption("--here"):
        from .local_engine import LocalEngine

        yield LocalEngine(tmp_path_factory.mktemp("here"), device(request.config))
        return
    where = paths()
    ours = not daemon.answers(where)
    run_folder = of_all_workers(tmp_path_factory)
    cache = run_folder / "engine-cache"
    cache.mkdir(exist_ok=True)
    cache.chmod(0o777)  # the server is no root
    with ExitStack() as stack:
        if ours and not os.environ.get("WINDLASS_KEEP"):
            stack.callback(demo.delete, where)  # and with it a cluster that later tests made on our engine
        try:
            image = serving.ensure(where)
        except BedError as error:
            pytest.fail(str(error))
        forks = ForkServer(where, image, run_folder, tmp_path_factory.mktemp("answers"), ONE_THREAD)
        stack.callback(forks.end)
        yield Engine(where, image, cache, forks)


@pytest.fixture(scope="session")
def made(engine: ServingEngine, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a folder of tiny models once for all workers; tests mount it read-only. Words are those of make.py."""
    root = of_all_workers(tmp_path_factory)

    def make(name: str, *words: str) -> Path:
        folder, part = root / f"made-{name}", root / f"part-{name}"
        with (root / f"lock-{name}").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                engine.python(MADE, "/out", *words, mounts={part: "/out"})
                for path in (part, *part.rglob("*")):
                    path.chmod(0o755)  # the server is no root
                part.rename(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny(made: Callable[..., Path]) -> Path:
    """Every tiny model, a folder each."""
    return made("tiny")


@pytest.fixture(scope="session")
def adapter(made: Callable[..., Path]) -> Path:
    """A folder with `lora`, an adapter for the demo model."""
    return made("adapter", "lora", "--base", "/repo/models/demo")


class SharedServer(ExitStack):
    """The server that several files talk to, one of a process: the next one ends it, for each takes 2 to 3 GiB."""

    def __init__(self) -> None:
        super().__init__()
        self._name, self._address = "", ""

    def address(self, name: str, start: Callable[[], AbstractContextManager[str]]) -> str:
        """Address of the server of this name, which is started where another one, or none, runs."""
        if name != self._name:
            self.close()
            self._name = ""
            self._address = self.enter_context(start())
            self._name = name
        return self._address


@pytest.fixture(scope="session")
def shared(engine: Engine) -> Iterator[SharedServer]:
    with SharedServer() as server:
        yield server


@pytest.fixture(scope="module")
def short(engine: Engine, shared: SharedServer) -> str:
    """The demo model with a short context, so that no request takes long, by the engine's module. Its address."""
    flags = "--port 8501 --dtype float32 --max-model-len 128 --served-model-name demo"
    module = ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/data/model")
    return shared.address(
        "short", lambda: engine.serving(*module, *flags.split(), *own_commands.FLAGS, str(SHORT_LIMIT))
    )


@pytest.fixture(scope="module")
def keyed(engine: Engine, shared: SharedServer, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo model with an adapter, a key file, a limit of four requests, and the routes of scaling out. Its address.

    KEYS have no limits of their own; `api/test_keys.py` has keys with limits in the same file. A CPU has no
    memory beside its own to offload prefixes to.
    """
    folder = tmp_path_factory.mktemp("keys")
    rows = [f"  - {{name: key-{number}, key: {key}}}\n" for number, key in enumerate(KEYS)]
    (folder / "keys.yaml").write_text(f"keys:\n{''.join(rows)}{LIMITED_KEYS}")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)  # the server is no root
    flags = (
        "--dtype float32 --max-model-len 1024 --served-model-name demo --enable-lora --max-lora-rank 8 "
        "--lora-modules adapter=/lora/lora --limit-worker-concurrency 4 --enable-scale-out "
        "--api-keys-file /keys/keys.yaml --enable-prefix-cache-offload"
    )
    mounts = {adapter: "/lora:ro", folder: "/keys:ro"}
    return shared.address("keyed", lambda: engine.serving("windlass", "run", *flags.split(), mounts=mounts))


@pytest.fixture(scope="session")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `seeing` leaves the spans that its server sends."""
    folder = tmp_path_factory.mktemp("traces")
    folder.chmod(0o777)  # the server is no root
    return folder / "spans.jsonl"


@pytest.fixture(scope="module")
def seeing(engine: Engine, shared: SharedServer, tiny: Path, spans: Path) -> str:
    """A tiny random model that reads images, with a key, beside a host of images and a receiver of traces."""
    flags = "--model /models/vision --dtype float32 --served-model-name tiny --allowed-media-domains localhost"
    beside = f"python3 /receiver.py /out/{spans.name} {TRACES_PORT} & python3 /tests/image_host.py"
    start = f"{beside} & exec windlass run {flags}"
    receiver, tests = Path(trace_receiver.__file__), REPOSITORY / "tests/engine/api"
    mounts = {tiny: "/models:ro", tests: "/tests:ro", spans.parent: "/out", receiver: "/receiver.py:ro"}
    key = {"OPENAI_API_KEYS": SEEING_KEY}
    return shared.address("seeing", lambda: engine.serving("sh", "-c", start, mounts=mounts, **key, **TRACES))


@pytest.fixture(scope="module")
def busy(engine: Engine, shared: SharedServer) -> str:
    """The demo model by the engine's own command, with a key, 16 places and a wait for 64. Its address.

    A load comes first; then `processes/test_hang.py` stops the engine, and the server ends with it.
    """
    command = "vllm serve /data/model --port 8501 --dtype float32 --max-model-len 1024 --served-model-name demo"
    limits = (str(PLACES), "--max-waiting-requests", str(WAITING))
    words = (*command.split(), *own_commands.FLAGS, *limits)
    return shared.address("busy", lambda: engine.serving(*words, WINDLASS_STALL_TIMEOUT=str(STALL_S)))
