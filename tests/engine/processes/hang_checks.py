"""What the tests of an engine that hangs ask of a container: stop and wake the engine's process, and load it."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import httpx
from windlass_testbed import daemon
from windlass_testbed.waiting import wait_until

from ..conftest import Engine
from ..serving_engine import ASK_S

ENGINE_PROCESS = "VLLM::EngineCor"
"""As the kernel cuts the name."""
SIGNAL = (
    "import os, pathlib, sys\n"
    "names = {path.parent.name: path.read_text().strip() for path in pathlib.Path('/proc').glob('[0-9]*/comm')}\n"
    f"found = [int(pid) for pid, name in names.items() if name == '{ENGINE_PROCESS}']\n"
    "[os.kill(pid, int(sys.argv[1])) for pid in found]\n"
    "print(len(found))\n"
)
NEVER_ENDS = """
import signal

def never_ends(*_):
    import torch
    rows = torch.ones(512, 512)
    while True:
        rows = torch.mm(rows, rows).clamp(max=1)

signal.signal(signal.SIGUSR2, never_ends)
"""
"""A `sitecustomize` of every Python of a server: at SIGUSR2 the thread that steps multiplies matrices for ever."""
WORDS = "def add(a, b): return os.path.join math.sqrt " * 20
STREAMS = 24


def signal_engine(engine: Engine, container: str, number: int) -> None:
    """Send a signal to the process that computes; there has to be one."""
    told = daemon.docker(engine.paths, "exec", container, "python3", "-c", SIGNAL, str(number))
    assert told.strip() == "1"


def health(url: str) -> tuple[int, str]:
    """What a probe hears: the status and, of a refusal, the sentence; 0 when nobody answers."""
    try:
        answer = httpx.get(f"{url}/health", timeout=ASK_S)
    except httpx.HTTPError:
        return 0, ""
    return answer.status_code, answer.json()["error"]["message"] if answer.is_error else ""


def until(url: str, status: int) -> tuple[float, str]:
    """The seconds until a probe hears this status, to be printed, and the sentence."""
    began, heard = time.monotonic(), list[tuple[int, str]]()
    wait_until(lambda: heard.append(health(url)) or heard[-1][0] == status, f"status {status}", 300, 0.1)
    return time.monotonic() - began, heard[-1][1]


def runs(url: str, headers: dict[str, str] | None = None) -> None:
    """Wait until the server has a request that runs."""

    def running() -> float:
        text = httpx.get(f"{url}/windlass/metrics", headers=headers, timeout=ASK_S).text
        found = re.search(r"^windlass_api_requests_running(?:{.*})? (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    wait_until(running, "a request that runs")


def load(url: str, seconds: float, headers: dict[str, str] | None = None) -> tuple[int, set[int]]:
    """Long prompts and long answers for so long: how many were answered, and all that probes heard meanwhile."""
    deadline, heard = time.monotonic() + seconds, set()
    sizes = cycle((40, 200, 500))

    def asks(tokens: int) -> int:
        count = 0
        while time.monotonic() < deadline:
            body = {"prompt": f"{count} {WORDS}"[: 3 * tokens], "max_tokens": tokens, "ignore_eos": True}
            count += httpx.post(f"{url}/v1/completions", json=body, headers=headers, timeout=300).is_success
        return count

    with ThreadPoolExecutor(STREAMS) as pool:
        running = [pool.submit(asks, tokens) for tokens, _ in zip(sizes, range(STREAMS), strict=False)]
        while time.monotonic() < deadline:
            heard.add(health(url)[0])
            time.sleep(1)  # clock: how often a probe comes
        return sum(one.result() for one in running), heard
