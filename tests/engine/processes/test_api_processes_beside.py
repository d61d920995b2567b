"""`windlass run --api-server-count 2` beside other features: several engines, TLS, an adapter, and prefix offload."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx
import pytest
from windlass_testbed import daemon

from ..api.test_first_chat import certificate, client, heard_until_ready
from ..conftest import Engine
from .hang_checks import WORDS
from .test_api_processes import PATIENCE_S, PROCESSES, sums

RUN = (
    "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo --api-server-count 2 "
    "--enable-log-requests"
)
ENGINES = f"{RUN} --worker-num 2 --shutdown-timeout {PATIENCE_S}"
TLS = "--ssl-certfile /tls/tls.crt --ssl-keyfile /tls/tls.key"
ADAPTER = f"{RUN} --enable-prefix-cache-offload --enable-lora --max-lora-rank 8 --lora-modules adapter=/lora/lora"
ANSWERS, AT_ONCE = 12, 4
BODY = {"model": "demo", "prompt": WORDS, "max_tokens": 16, "temperature": 0}
LONG = {"model": "demo", "prompt": "def add(a, b):", "max_tokens": 900, "ignore_eos": True, "stream": True}
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
KEY = "sk-one"
BEARER = {"Authorization": f"Bearer {KEY}"}
GENERATED = r'^vllm:generation_tokens_total\{engine="(\d+)".*\} (\S+)$'
LOGGED = r"^\(ApiServer_(\d) pid=\d+\).* Received request "
"""The line of each request by its process; the lines of access do not name it."""


def by_process(said: str) -> Counter[str]:
    """Requests that each API process took."""
    return Counter(re.findall(LOGGED, said, re.MULTILINE))


def get(host: str, path: str) -> str:
    """A page over a fresh connection."""
    with client(host) as http:
        return http.get(path).text


def chat(host: str) -> str:
    """A short answer over a fresh connection, which either process may take."""
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 60}
    with client(host) as http:
        answer = http.post("/v1/chat/completions", json=body, headers=BEARER, timeout=PATIENCE_S)
        return answer.json()["choices"][0]["message"]["content"]


def last_line(host: str, begun: Barrier) -> str:
    """The end of a long stream whose reader waits after the first line for the other streams' first lines."""
    with (
        client(host) as http,
        http.stream("POST", "/v1/completions", json=LONG, headers=BEARER, timeout=PATIENCE_S) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        begun.wait(PATIENCE_S)
        return [line for line in lines if line][-1]


def generated(host: str) -> dict[str, float]:
    """Tokens by engine."""
    return {engine: float(tokens) for engine, tokens in re.findall(GENERATED, get(host, "/metrics"), re.MULTILINE)}


def usage(host: str) -> float:
    """Counted requests of the container: each of several asks reads the same."""
    (found,) = {sums(get(host, "/windlass/metrics")).get("windlass_usage_requests_total", 0) for _ in range(8)}
    return found


@pytest.mark.long
def test_two_engines_over_tls(engine: Engine, tmp_path: Path) -> None:
    """Both API processes reach both engines, count together, and drain both at SIGTERM."""
    certificate(tmp_path)
    words, mounts = [*ENGINES.split(), *TLS.split()], {tmp_path: "/tls:ro"}
    with engine.started(*words, mounts=mounts, OPENAI_API_KEYS=KEY) as (name, host):
        with client(host) as probe:
            heard_until_ready(probe)
        assert len(daemon.docker(engine.paths, "exec", name, "python3", "-c", PROCESSES).split()) == 2
        counted, made, shares = usage(host), generated(host), by_process(engine.log(name, "all"))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            (content,) = set(pool.map(chat, [host] * ANSWERS))
        assert "one or more path segments" in content
        assert usage(host) == counted + ANSWERS
        assert made.keys() == {"0", "1"}
        assert all(tokens > made[number] for number, tokens in generated(host).items())
        shares = by_process(engine.log(name, "all")) - shares
        print(f"requests by process {dict(shares)}")
        assert shares.keys() == {"0", "1"}
        begun = Barrier(AT_ONCE + 1)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            running = [pool.submit(last_line, host, begun) for _ in range(AT_ONCE)]
            begun.wait(PATIENCE_S)
            daemon.docker(engine.paths, "kill", "--signal", "TERM", name)
            assert {one.result() for one in running} == {"data: [DONE]"}
        assert daemon.docker(engine.paths, "wait", name).strip() == "0"


@pytest.mark.long
def test_an_adapter_and_a_stored_prefix(engine: Engine, adapter: Path) -> None:
    """Either process knows the adapter, and reads the prefix that the other stored.

    The CPU engine has no host memory of its own to offload to, so this is the engine's prefix cache.
    """
    with engine.serving(*ADAPTER.split(), mounts={adapter: "/lora:ro"}) as url:
        assert "--enable-prefix-cache-offload is off for this start" in engine.output(url)
        names = {tuple(one["id"] for one in httpx.get(f"{url}/v1/models").json()["data"]) for _ in range(8)}
        assert names == {("demo", "adapter")}

        def ask(model: str) -> tuple[str, int]:
            found = httpx.post(f"{url}/v1/completions", json=BODY | {"model": model}, timeout=PATIENCE_S).json()
            details = found["usage"]["prompt_tokens_details"] or {}
            return found["choices"][0]["text"], details.get("cached_tokens") or 0

        base, _ = ask("demo")
        before = by_process(engine.output(url))
        first, cached = ask("adapter")
        assert (first != base, cached) == (True, 0)
        again = [ask("adapter") for _ in range(ANSWERS)]
        assert {text for text, _ in again} == {first}
        assert min(tokens for _, tokens in again) > 0
        shares = by_process(engine.output(url)) - before
        print(f"requests by process {dict(shares)}, cached tokens {again[0][1]}")
        assert shares.keys() == {"0", "1"}
