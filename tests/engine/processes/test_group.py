"""Two containers of the image as one group: tensor parallelism over vLLM's own multi-node, and one end for both."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import httpx
import pytest
from windlass_testbed import daemon
from windlass_testbed.paths import REPOSITORY

from ..conftest import NETWORK, Engine, ensure_network
from ..serving_engine import START_TIMEOUT_S

HEAD = "windlass-group-head"
MODEL = REPOSITORY / "models/demo"
FLAGS = "--dtype float32 --max-model-len 512 --max-num-seqs 4 --served-model-name demo"
VARIABLES = {
    "WINDLASS_LICENSE_REQUIRED": "false",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "WINDLASS_GROUP_HEAD": HEAD,
    "WINDLASS_GROUP_SIZE": "2",
}
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
JOIN = "Join one or more path segments intelligently."


@dataclass(frozen=True)
class Member:
    """One container; `ports` are where its API and its facts are reached from here."""

    engine: Engine
    name: str
    ports: dict[str, str]

    def docker(self, *words: str) -> str:
        return daemon.docker(self.engine.paths, *words)

    def facts(self) -> dict[str, object]:
        try:
            return httpx.get(f"http://{self.ports['8502']}/windlass/facts", timeout=5).json()
        except httpx.HTTPError:
            return {}

    def end(self, limit_s: float) -> int:
        """Its exit code; it has to end within the limit."""
        deadline = time.monotonic() + limit_s
        form = "{{.State.Running}} {{.State.ExitCode}}"
        while (state := self.docker("inspect", "--format", form, self.name).split())[0] == "true":
            if time.monotonic() > deadline:
                pytest.fail(f"it runs on after {limit_s} s:\n{self.engine.log(self.name)}")
            time.sleep(0.2)
        return int(state[1])


@contextmanager
def member(engine: Engine, hostname: str, *more: str) -> Iterator[Member]:
    """One container of the group."""
    docker = partial(daemon.docker, engine.paths)
    ensure_network(engine.paths)
    env = [word for name, value in VARIABLES.items() for word in ("--env", f"{name}={value}")]
    mounts = {MODEL: "/data/model:ro", **engine.serving_cache}
    volumes = [word for source, target in mounts.items() for word in ("--volume", f"{source}:{target}")]
    flags = ["--network", NETWORK, "--hostname", hostname, *volumes, *env, *more]
    flags += ["--publish", "127.0.0.1::8501", "--publish", "127.0.0.1::8502", "--shm-size", "1g"]
    name = docker("run", "--detach", *flags, engine.image, "run", *FLAGS.split()).strip()
    try:
        ports = {number: docker("port", name, f"{number}/tcp").split()[0] for number in ("8501", "8502")}
        yield Member(engine, name, ports)
    finally:
        docker("rm", "--force", name)


@pytest.fixture
def pair(engine: Engine) -> Iterator[tuple[Member, Member]]:
    """Head and follower, serving. The follower takes its index from its host name, as a StatefulSet's pod does."""
    with ExitStack() as stack:
        head = stack.enter_context(member(engine, HEAD, "--env", "WINDLASS_GROUP_INDEX=0"))
        form = f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}'
        address = head.docker("inspect", "--format", form, head.name).strip()
        follower = stack.enter_context(member(engine, "group-1", "--add-host", f"{HEAD}:{address}"))
        deadline = time.monotonic() + 2 * START_TIMEOUT_S
        while [one.facts().get("phase") for one in (head, follower)] != ["serving", "serving"]:
            if time.monotonic() > deadline:
                pytest.fail(f"they do not serve:\n{engine.log(head.name)}\n{engine.log(follower.name)}")
            time.sleep(1)
        yield head, follower


def ask(head: Member) -> str:
    body = {"model": "demo", "messages": QUESTION, "temperature": 0, "max_tokens": 40}
    answer = httpx.post(f"http://{head.ports['8501']}/v1/chat/completions", json=body, timeout=120)
    return answer.json()["choices"][0]["message"]["content"]


def test_they_serve_and_a_dead_follower_ends_the_head(pair: tuple[Member, Member]) -> None:
    """The model answers over two processes; the follower has no API; the head's exit code names the follower."""
    head, follower = pair
    assert ask(head).startswith(JOIN)
    assert follower.facts()["group"]["index"] == 1
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://{follower.ports['8501']}/health", timeout=5)
    follower.docker("kill", "--signal", "KILL", follower.name)
    assert head.end(limit_s=60) == 101
    assert "member 1 of 2 closed its connection without a word" in head.engine.log(head.name)


@pytest.mark.long
def test_a_dead_head_ends_the_follower(pair: tuple[Member, Member]) -> None:
    """The follower does not wait for work that nobody sends."""
    head, follower = pair
    assert ask(head).startswith(JOIN)
    head.docker("kill", "--signal", "KILL", head.name)
    assert follower.end(limit_s=60) == 100
    assert f"the head {HEAD} closed its connection without a word" in follower.engine.log(follower.name)


@pytest.mark.long
def test_a_killed_worker_is_reported_by_both(pair: tuple[Member, Member]) -> None:
    """As when the follower's memory is too small: it says what, the head says who."""
    head, follower = pair
    kill = "import os, pathlib; [os.kill(int(p.name), 9) for p in pathlib.Path('/proc').glob('[0-9]*') if "
    kill += "(p / 'cmdline').read_text().startswith('VLLM::Worker')]"
    follower.docker("exec", follower.name, "python3", "-c", kill)
    assert follower.end(limit_s=60) == 1
    assert head.end(limit_s=60) == 101
    assert "its process VllmWorker-1 was killed or crashed" in head.engine.log(head.name)
