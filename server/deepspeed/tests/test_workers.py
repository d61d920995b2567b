"""Several engines: which share of the machine each gets, and how the process of the API speaks with them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from windlass_deepspeed import workers
from windlass_deepspeed.decoder import Start
from windlass_deepspeed.flags import resolve
from windlass_deepspeed.sampling import Sampling
from windlass_deepspeed.workers import Described, Worker, share
from windlass_testbed.waiting import HANG_S

from .answering.echo import EOS, Echo

TWO_BY_TWO = resolve(("--worker-num", "2", "--num-gpus", "2"), {})
DESCRIBED = Described(64, frozenset({EOS}), {"dtype": "float32"})
SLEEPS = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.mark.parametrize(
    ("environment", "number", "expected"),
    [
        ({}, 0, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ({}, 1, {"CUDA_VISIBLE_DEVICES": "2,3"}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c,GPU-d"}, 1, {"CUDA_VISIBLE_DEVICES": "GPU-c,GPU-d"}),
        ({"WINDLASS_ENGINE": "cpu"}, 1, {"OMP_NUM_THREADS": "2"}),
        ({"WINDLASS_ENGINE": "cpu", "OMP_NUM_THREADS": "1"}, 1, {"OMP_NUM_THREADS": "1"}),
    ],
)
def test_share(environment: dict[str, str], number: int, expected: dict[str, str]) -> None:
    """S19: an engine has GPUs of its own, or on the CPU its part of the cores."""
    ours = share(TWO_BY_TWO, environment, number, cores=8)
    assert {**environment, "WINDLASS_DEEPSPEED_WORKER": str(number), **expected} == ours


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker whose process sleeps; a test's thread answers in its place."""
    path = str(tmp_path / "0")
    listener = workers.socket.socket(workers.socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    one = Worker(subprocess.Popen(SLEEPS), listener)
    yield one
    one.process.kill()
    one.end()


def test_an_engine_in_another_process_decodes_as_one_here(worker: Worker) -> None:
    """The same tokens; the worker ends when its socket does."""
    thread = threading.Thread(target=workers.work, args=(worker.listener.getsockname(), Echo(), DESCRIBED))
    thread.start()
    loaded = worker.loaded()
    assert loaded is not None
    remote, described = loaded
    assert described == DESCRIBED
    start = Start(1, (65, 66), Sampling(max_tokens=4))
    assert [remote.join([start]), remote.step(), remote.step()] == [{1: 65}, {1: 66}, {1: EOS}]
    remote.leave([1])
    assert remote.step() == {}
    assert worker.connection is not None
    worker.connection.close()
    thread.join(HANG_S)
    assert not thread.is_alive()


def test_a_worker_that_ends_before_its_model_is_loaded(worker: Worker) -> None:
    """Nobody waits for it."""
    worker.process.kill()
    assert worker.loaded() is None
    assert workers.ended([worker]) == "worker 0 ended with exit code -9"


def test_a_running_worker_is_not_reported(worker: Worker) -> None:
    """Only an end has a sentence."""
    assert workers.ended([worker]) == ""


def test_workers_are_processes_with_sockets_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is this program again; a wrong model directory ends each with the model's exit code."""
    words = ("--model-path", str(tmp_path / "nowhere"), "--worker-num", "2")
    monkeypatch.setenv("WINDLASS_ENGINE", "cpu")
    ours = workers.start(words, resolve(words, {}), os.environ, tmp_path)
    try:
        assert [worker.loaded() for worker in ours] == [None, None]
        assert [worker.process.wait() for worker in ours] == [3, 3]
    finally:
        for worker in ours:
            worker.end()
