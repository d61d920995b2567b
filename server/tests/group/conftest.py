"""A scripted engine in the place of vLLM, and members of a group as processes of `windlass run`."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from windlass_testbed.waiting import HANG_S, wait_until

ENGINE = """
import http.server, os, pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
words = sys.argv
place = words[words.index("--node-rank") + 1]
pathlib.Path(os.environ["ENGINE_PIDS"], place).write_text(str(os.getpid()))
print("engine of member", place, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(200); self.end_headers()
    do_POST = do_GET
    def log_message(self, *_): pass
if "--headless" in words:
    signal.pause()
http.server.HTTPServer(("127.0.0.1", int(words[words.index("--port") + 1])), Handler).serve_forever()
"""


@dataclass
class Member:
    """One process of `windlass run`."""

    process: subprocess.Popen[str]
    facts_port: int
    last_words_path: Path
    pid_path: Path

    def facts(self) -> dict[str, object]:
        """What its facts port shows, nothing before it answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.facts_port}/windlass/facts", timeout=HANG_S) as answer:
                return json.load(answer)
        except OSError:
            return {}

    def is_ready(self) -> bool:
        """What a readiness probe makes of it."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.facts_port}/windlass/ready", timeout=HANG_S):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            assert error.code == 503
            return False

    def until(self, phase: str) -> dict[str, object]:
        """The facts, when this phase has come."""

        def reached() -> dict[str, object] | None:
            facts = self.facts()
            assert facts.get("phase") == phase or self.process.poll() is None, self.process.communicate()[1]
            return facts if facts.get("phase") == phase else None

        return wait_until(reached, f"the phase {phase}")

    def kill_engine(self) -> None:
        """End its engine, as the kernel does when memory is short; it may have to come up first."""
        number = wait_until(lambda: self.pid_path.exists() and self.pid_path.read_text(), "the engine's start")
        os.kill(int(number), signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said."""
        _, said = self.process.communicate(timeout=HANG_S)
        return self.process.returncode, said

    def last_words(self) -> dict[str, object]:
        """The container's termination message, without the engine's last lines."""
        words = json.loads(self.last_words_path.read_text())
        words.pop("excerpt", None)
        return words


def free_port() -> int:
    """A port that nobody listens on, below those of outgoing connections, so it stays free until a member binds."""
    while True:
        port = random.randrange(20_000, 32_000)  # noqa: S311 - no secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port


@dataclass
class Members:
    """Starts members of one group of two."""

    folder: Path
    port: int = field(default_factory=free_port)
    started: list[Member] = field(default_factory=list)

    def __call__(self, index: int, **variables: str) -> Member:
        """Start one."""
        facts_port, words = free_port(), self.folder / f"last-words-{index}"
        group = {"HEAD": "127.0.0.1", "SIZE": "2", "INDEX": str(index), "PORT": str(self.port), "TIMEOUT": "30"}
        environment = {
            **os.environ,
            **{f"WINDLASS_GROUP_{name}": value for name, value in group.items()},
            "PYTHONPATH": os.pathsep.join((str(self.folder / "engine"), os.environ.get("PYTHONPATH", ""))),
            "ENGINE_PIDS": str(self.folder),
            "WINDLASS_ENGINE": "cpu",
            "WINDLASS_LICENSE_REQUIRED": "false",
            "WINDLASS_FACTS_PORT": str(facts_port),
            "WINDLASS_TERMINATION_LOG": str(words),
            **variables,
        }
        command = [sys.executable, "-m", "windlass.cli.main", "run", str(self.folder / "model")]
        process = subprocess.Popen(
            [*command, "--port", str(free_port())],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(Member(process, facts_port, words, self.folder / str(index)))
        return self.started[-1]


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Callable[..., Member]]:
    """`member(0)` starts the head, `member(1)` the follower; both end with the test."""
    for module in ("entrypoints/openai/api_server.py", "entrypoints/cli/main.py"):
        path = tmp_path / "engine" / "vllm" / module
        path.parent.mkdir(parents=True)
        path.write_text(ENGINE)
    model = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_attention_heads": 8}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(model))
    members = Members(tmp_path)
    try:
        yield members
    finally:
        for one in members.started:
            one.process.terminate()
        for one in members.started:
            one.process.communicate(timeout=HANG_S)
