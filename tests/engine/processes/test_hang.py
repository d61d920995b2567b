"""An engine that hangs is noticed and restarted, and one that works hard is not: real vLLM whose process is stopped."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from windlass_testbed import daemon

from ..api.own_commands import BEARER
from ..conftest import STALL_S, Engine
from .hang_checks import NEVER_ENDS, health, load, runs, signal_engine, until

RESTART_S = 60
LOAD_S = 3 * STALL_S  # an engine without steps would be noticed; make hang-load is the long run
LONG = {"json": {"prompt": "def add(a, b):", "max_tokens": 900, "ignore_eos": True}, "headers": BEARER}


@pytest.mark.long
def test_a_busy_engine_and_a_stopped_one(engine: Engine, busy: str) -> None:
    """Heavy load is no hang; a stop is one, a step takes it back, and a stop that lasts ends with the reason."""
    answered, heard = load(busy, LOAD_S, BEARER)
    assert (heard, "has ended no step" in engine.output(busy)) == ({200}, False)
    container = engine.container(busy)
    signal_engine(engine, container, signal.SIGSTOP)
    time.sleep(2 * STALL_S)  # clock: a slow machine makes it longer, and the check no weaker
    assert health(busy) == (200, ""), "nobody asks for anything: nothing hangs"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: httpx.post(f"{busy}/v1/completions", **LONG, timeout=120).status_code)
        noticed_s, sentence = until(busy, 503)
        assert "the engine holds 1 requests and has ended no step for" in sentence
        signal_engine(engine, container, signal.SIGCONT)
        mended_s, _ = until(busy, 200)
        assert asked.result() == 200
        lost = pool.submit(lambda: httpx.post(f"{busy}/v1/completions", **LONG, timeout=300))
        runs(busy, BEARER)
        signal_engine(engine, container, signal.SIGSTOP)
        began = time.monotonic()
        code = int(daemon.docker(engine.paths, "wait", container))
        ended_s = time.monotonic() - began
        assert lost.exception() is not None or lost.result().status_code >= 500
    said = engine.log(container, "all")
    print(f"{answered} answers; 503 after {noticed_s:.1f} s, 200 after {mended_s:.1f} s, ended after {ended_s:.1f} s")
    assert code == 9, said[-4000:]
    assert ended_s >= RESTART_S  # clock: it waits for a step at least so long; how much longer is printed
    last = said.splitlines()[-1]
    assert last.startswith("windlass: the engine holds 1 requests and has ended no step for"), last
    assert "; the last line of its log was" in last


@pytest.mark.long
def test_a_kernel_that_never_ends(engine: Engine, tmp_path: Path) -> None:
    """The engine's process computes for ever in the middle of a step: the same reason, and the same end."""
    (tmp_path / "sitecustomize.py").write_text(NEVER_ENDS)
    for path in (tmp_path, *tmp_path.iterdir()):
        path.chmod(0o755)  # the server is no root
    words = "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo"
    variables = {"WINDLASS_STALL_TIMEOUT": str(STALL_S), "PYTHONPATH": "/site"}
    with (
        engine.serving(*words.split(), mounts={tmp_path: "/site:ro"}, **variables) as url,
        ThreadPoolExecutor(1) as pool,
    ):
        container = engine.container(url)
        lost = pool.submit(lambda: httpx.post(f"{url}/v1/completions", json=LONG["json"], timeout=300))
        runs(url)
        signal_engine(engine, container, signal.SIGUSR2)
        noticed_s, sentence = until(url, 503)
        began = time.monotonic()
        code = int(daemon.docker(engine.paths, "wait", container))
        ended_s = time.monotonic() - began
        assert lost.exception() is not None or lost.result().status_code >= 500
        said = engine.log(container, "all")
    print(f"503 after {noticed_s:.1f} s, ended {ended_s:.1f} s later")
    assert "the engine holds 1 requests and has ended no step for" in sentence
    assert code == 9, said[-4000:]
    assert said.splitlines()[-1].startswith("windlass: the engine holds 1 requests and has ended no step for")
