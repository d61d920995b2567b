"""`windlass run --worker-num 2` in its image: two engines behind one port, as one thing."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from windlass_testbed import daemon
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.waiting import wait_until

FLAGS = "--dtype float32 --max-model-len 512 --served-model-name demo --worker-num 2 --limit-worker-concurrency 3"
BOUND = {"VLLM_CPU_OMP_THREADS_BIND": ""}
"""As a user has it: each engine's worker process is bound to cores of its own."""
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
ASKED = {"messages": QUESTION, "temperature": 0, "max_tokens": 60}
KILL = """
import os, pathlib
names = {path.parent.name: path.read_text().strip() for path in pathlib.Path("/proc").glob("[0-9]*/comm")}
os.kill(int(next(pid for pid, name in names.items() if name == "VLLM::Worker")), 9)
"""


@pytest.fixture(scope="module")
def address(engine):
    with engine.serving("windlass", "run", *FLAGS.split(), **BOUND) as url:
        yield url


def ask(url):
    answer = httpx.post(f"{url}/v1/chat/completions", json=ASKED, timeout=120)
    return answer.json()["choices"][0]["message"]["content"]


def generated(url):
    """Tokens by engine."""
    text = httpx.get(f"{url}/metrics").text
    found = re.findall(r'^vllm:generation_tokens_total\{engine="(\d+)".*\} (\S+)$', text, re.MULTILINE)
    return {engine: float(tokens) for engine, tokens in found}


def test_both_engines_served_the_first_chat(address):
    """Ready before anybody asked: each engine has made the few tokens of it."""
    assert generated(address).keys() == {"0", "1"}
    assert all(tokens > 0 for tokens in generated(address).values())


def test_both_engines_work_behind_one_port(address):
    """The same answers as from one engine; each engine made some of them."""
    before = generated(address)
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(ask, [address] * 16))
    assert len(answers) == 1
    assert "one or more path segments" in answers.pop()
    assert all(tokens > before[engine] for engine, tokens in generated(address).items())


def test_a_stream_is_a_stream(address):
    body = {**ASKED, "stream": True}
    with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, timeout=120) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert len(lines) > 10


def test_the_limit_is_for_each_worker(address):
    """One API process, so that the container's limit is exact."""
    assert httpx.get(f"{address}/windlass/facts").json()["limits"]["concurrency"] == 6


def test_others_reach_the_api_and_the_facts_alone(engine, address):
    """The engines and their workers talk to each other on loopback: from another pod nobody reaches them."""
    program = (REPOSITORY / "tests/attack/network/listening.py").read_text()
    found = daemon.docker(engine.paths, "exec", engine.container(address), "python3", "-c", program)
    assert json.loads(found) == [8501, 8502]


@pytest.mark.long
def test_one_engine_lost_ends_the_container_with_a_sentence(engine):
    """Half a server would be half as fast in silence: the pod restarts instead, and says why."""
    with engine.serving("windlass", "run", *FLAGS.split(), **BOUND) as url:
        name = engine.container(url)
        daemon.docker(engine.paths, "exec", "--user", "0", name, "python3", "-c", KILL)
        wait_until(lambda: not engine.is_running(name), "the container's end", 600, 1)
        assert "the engine ended by itself: its process VllmWorker-0 was killed or crashed" in engine.log(name)
