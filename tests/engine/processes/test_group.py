"""Two containers of the image as one group: tensor parallelism over vLLM's own multi-node, and one end for both."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import httpx
import pytest
from windlass_testbed import daemon
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.waiting import wait_until

from ..conftest import NETWORK, Engine, ensure_network
from ..serving_engine import ASK_S, START_TIMEOUT_S

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
            return httpx.get(f"http://{self.ports['8502']}/windlass/facts", timeout=ASK_S).json()
        except httpx.HTTPError:
            return {}

    def end(self) -> int:
        """Its exit code, when it has ended."""
        wait_until(lambda: not self.engine.is_running(self.name), f"the end of {self.name}", 600, 0.2)
        return int(self.docker("inspect", "--format", "{{.State.ExitCode}}", self.name))


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

        def serve() -> bool:
            for one in (head, follower):
                if not engine.is_running(one.name):
                    pytest.fail(f"{one.name} has ended:\n{engine.log(one.name)}")
            return all(one.facts().get("phase") == "serving" for one in (head, follower))

        wait_until(serve, "a group that serves", START_TIMEOUT_S, 1)
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
        httpx.get(f"http://{follower.ports['8501']}/health", timeout=ASK_S)
    follower.docker("kill", "--signal", "KILL", follower.name)
    assert head.end() == 101
    assert "member 1 of 2 closed its connection without a word" in head.engine.log(head.name)


@pytest.mark.long
def test_a_dead_head_ends_the_follower(pair: tuple[Member, Member]) -> None:
    """The follower does not wait for work that nobody sends."""
    head, follower = pair
    assert ask(head).startswith(JOIN)
    head.docker("kill", "--signal", "KILL", head.name)
    assert follower.end() == 100
    assert f"the head {HEAD} closed its connection without a word" in follower.engine.log(follower.name)


@pytest.mark.long
def test_a_killed_worker_is_reported_by_both(pair: tuple[Member, Member]) -> None:
    """As when the follower's memory is too small: it says what, the head says who."""
    head, follower = pair
    kill = "import os, pathlib; [os.kill(int(p.name), 9) for p in pathlib.Path('/proc').glob('[0-9]*') if "
    kill += "(p / 'cmdline').read_text().startswith('VLLM::Worker')]"
    follower.docker("exec", follower.name, "python3", "-c", kill)
    assert follower.end() == 1
    assert head.end() == 101
    assert "its process VllmWorker-1 was killed or crashed" in head.engine.log(head.name)
