"""The engine of this machine in the image's place, for `pytest --here`: where there is a GPU there is often no Docker.

Servers are processes of `windlass run` and of the engine's own commands, from the sources of this repository. They need
not be installed: a folder of ours gives the engine our plug-ins and our start commands, as the image does. Paths of the
image in words become this machine's.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from windlass.launch import hook
from windlass_testbed.paths import REPOSITORY

from .serving_engine import ServingEngine, answers

sys.path.insert(0, str(REPOSITORY / "benchmarks/quantization"))

from beside import plugin
from serving import PROGRAM

PORT = "8501"
"""The image's, in words."""
PLACES = {"/repo": str(REPOSITORY), "/data/model": str(REPOSITORY / "models/demo")}
COMMANDS = {"windlass": PROGRAM, "vllm": "from windlass.cli.serve import vllm; vllm()"}
STOP_TIMEOUT_S = 60
OF_IMAGES = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
VARIABLES = {
    # The image has no compiler, and a torch that was trimmed for it cannot use one.
    "cpu": {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"},
    # Attention in true float32, so that a batch's size decides no token; no sampler and no sum over cards that is
    # compiled at the start; one card for a server that does not say more.
    "cuda": {
        "TRITON_F32_DEFAULT": "ieee",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
        "TP": "1",
    },
}
"""What an image of the device has of its own."""
WORDS = {
    "cpu": ("--enforce-eager",),
    # Several on one card; CUDA graphs, which drafts of any length need, without the minutes of compiling.
    "cuda": (
        *("--gpu-memory-utilization", "0.1", "--kv-cache-memory-bytes", str(2**30), "--max-num-seqs", "64"),
        *("--attention-backend", "TRITON_ATTN"),
        *("--compilation-config", '{"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}'),
    ),
}


@dataclass(frozen=True)
class Server:
    """A process, the file of what it says, and the image's names of the folders that it has."""

    process: subprocess.Popen[bytes]
    log: Path
    places: dict[str, str]

    @property
    def output(self) -> str:
        """What it said so far, with the image's paths."""
        text = self.log.read_text(errors="replace")
        for target, path in self.places.items():
            text = text.replace(path, target)
        return text


@dataclass(frozen=True)
class LocalEngine(ServingEngine):
    """`device` is cpu or cuda; everything that is written lies under `work`."""

    work: Path
    device: str
    servers: dict[str, Server] = field(default_factory=dict)

    @property
    def is_many_at_once(self) -> bool:  # type: ignore[override]
        """A CPU has no room for it."""
        return self.device == "cuda"

    def python(self, *words: str, mounts: dict[Path, str] | None = None, timeout_s: float = 900) -> str:
        """Run Python here; return what it printed."""
        command = [sys.executable, *map(_translation(_places(mounts)), words)]
        env = self._environment(self._folder("home"))
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout_s, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr)[-4000:]
            pytest.fail(f"{' '.join(words)[:200]} exited with {done.returncode}:\n{said}")
        return done.stdout

    @contextmanager
    def serving(self, *words: str, mounts: dict[Path, str] | None = None, **variables: str) -> Iterator[str]:
        """Run a start command, wait until it answers, and give its address."""
        server, address = self._start(words, _places(mounts), variables)
        try:
            if not answers(address, lambda: server.process.poll() is None):
                pytest.fail(f"the server did not answer:\n{server.output[-8000:]}")
            yield address
        finally:
            _end(server.process)

    def output(self, url: str) -> str:
        """Everything that the server said."""
        return self.servers[url].output

    def seen(self, folder: Path, target: str) -> str:
        """There is no other name."""
        return str(folder)

    def _start(self, words: tuple[str, ...], places: dict[str, str], variables: dict[str, str]) -> tuple[Server, str]:
        port, facts_port = _free_ports(2)
        cache = Path(places.setdefault("/cache", str(self._folder(f"cache-{port}"))))
        known = {"MODEL": places["/data/model"], "WINDLASS_LICENSE_REQUIRED": "false"}
        env = self._environment(cache) | known | {"WINDLASS_FACTS_PORT": str(facts_port), **variables}
        flags = () if PORT in words else ("--port", PORT)
        said = map(_translation(places | {PORT: str(port)}), (*words, *flags))
        log = self.work / f"{port}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(self._commands / words[0]), *list(said)[1:], *WORDS[self.device]],
                stdout=file,
                stderr=file,
                env=env,
                cwd=cache,
                start_new_session=True,
            )
        address = f"http://127.0.0.1:{port}"
        self.servers[address] = server = Server(process, log, places)
        return server, address

    def _environment(self, cache: Path) -> dict[str, str]:
        paths = (
            self._site,
            *(REPOSITORY / f"{one}/src" for one in ("server", "lib/base", "lib/sizing")),
            os.environ.get("PYTHONPATH", ""),
        )
        own = {"PYTHONPATH": ":".join(map(str, paths)), "PATH": f"{self._commands}:{os.environ['PATH']}"}
        own |= dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(cache))
        own |= {"TRITON_CACHE_DIR": str(self.work / "triton"), "WINDLASS_ENGINE": self.device}
        return os.environ | OF_IMAGES | VARIABLES[self.device] | own

    @cached_property
    def _site(self) -> Path:
        """Our plug-ins, and the hook that the images put into windlass.pth."""
        site = plugin(self.work)
        (site / "sitecustomize.py").write_text(hook.PTH + "\n")
        return site

    @cached_property
    def _commands(self) -> Path:
        folder = self._folder("bin")
        lines = {name: f"{sys.executable} -c '{program}' \"$@\"" for name, program in COMMANDS.items()}
        for name, line in (lines | {"python3": f'{sys.executable} "$@"'}).items():
            (folder / name).write_text(f"#!/bin/sh\nexec {line}\n")
            (folder / name).chmod(0o755)
        return folder

    def _folder(self, name: str) -> Path:
        folder = self.work / name
        folder.mkdir(exist_ok=True)
        return folder


def _places(mounts: dict[Path, str] | None) -> dict[str, str]:
    return PLACES | {target.partition(":")[0]: str(path) for path, target in (mounts or {}).items()}


def _translation(names: dict[str, str]) -> Any:
    """A function of a word: a name that is the whole of it, of what is behind `=`, or its first folders, is changed."""
    known = re.compile(rf"(^|=)({'|'.join(map(re.escape, names))})(?=/|$)")
    return lambda word: known.sub(lambda found: found[1] + names[found[2]], word)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Told to; what is left of its session after a while is killed."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    for pid in _session(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(STOP_TIMEOUT_S)


def _session(leader: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, fields = stat.parent.name, stat.read_text().rpartition(")")[2].split()
            found += [int(pid)] if fields[3] == str(leader) else []
    return found
