"""Real DeepSpeed, real torch, a trained model: `pytest server/deepspeed/tests_real` where the image's packages are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from real import Server, until

HERE = Path(__file__).parent
MODEL = HERE.parents[2] / "models" / "demo"
ENGINE = "deepspeed.inference.engine.InferenceEngine"


def result(*flags: str) -> dict[str, Any]:
    """What `real.py` found."""
    command = [sys.executable, str(HERE / "real.py"), str(MODEL), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, (done.stdout + done.stderr)[-4000:]
    return json.loads(lines[-1].removeprefix("RESULT "))


@pytest.fixture(scope="module", params=["1", "2"], ids=["one process", "tensor parallel"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    return result("--num-gpus", request.param) | {"processes": request.param}


def test_answers_of_a_batch_are_those_of_transformers_alone(found: dict[str, Any]) -> None:
    """Eight chats of different lengths at once, streamed or not: each equals `generate` on its prompt alone."""
    assert len(found["together"]) == 8
    assert [alone for _, alone in found["together"]] == [said for said, _ in found["together"]]


def test_requests_join_and_leave_a_running_batch(found: dict[str, Any]) -> None:
    """Long answers are the same when others come and go beside them, and so are the others'."""
    assert [alone for _, alone in found["joined"]] == [said for said, _ in found["joined"]]


def test_each_row_is_drawn_by_its_own_request(found: dict[str, Any]) -> None:
    """Ten ways of drawing share a batch: each gives what it gives alone; chance differs by seed."""
    drawn = found["drawn"]
    assert {name: should for name, (_, should) in drawn.items()} == {name: said for name, (said, _) in drawn.items()}
    assert (
        len({drawn[name][0] for name in ("greedy", "repetition", "ngrams", "bias", "frequency", "seed", "other seed")})
        == 7
    )


def test_batches_are_above_one_in_deepspeeds_engine(found: dict[str, Any]) -> None:
    """The figures say that requests shared passes, and what computed them."""
    figures = found["figures"]
    assert figures["passes_above_4"] > 0
    assert 0 < figures["passes_above_1"] < figures["passes"]
    assert (figures["engine"]["class"], figures["engine"]["device"]) == (ENGINE, "cpu")
    assert found["processes"] == figures["engine"]["tensor_parallel"]


def test_a_client_that_leaves_frees_its_row(found: dict[str, Any]) -> None:
    """Its row is gone long before its answer would be over."""
    assert found["gone"] == {"running": 0.0, "gone": 1.0}


def test_the_server_ends_on_request(found: dict[str, Any]) -> None:
    """SIGTERM is no error; torch's launcher of a group calls it one."""
    assert found["exit_code"] == (0 if found["processes"] == "1" else 1)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_int8_weights(processes: str) -> None:
    """`--ds-dtype int8` computes with weights in bytes, whole or split, and answers most questions as before."""
    found = result("--ds-dtype", "int8", "--num-gpus", processes)
    assert found["figures"]["engine"]["dtype"] == "int8 weights, float32"
    assert found["figures"]["engine"]["tensor_parallel"] == processes
    same = [said == alone for said, alone in found["together"]]
    assert sum(same) >= len(same) / 2


@pytest.mark.parametrize("processes", ["1", "2"])
def test_two_workers_share_the_requests(processes: str) -> None:
    """Two engines behind one port: the same answers, both at work, one page of metrics; each may be split as well."""
    found = result("--worker-num", "2", "--num-gpus", processes)
    for part in ("together", "joined"):
        assert [alone for _, alone in found[part]] == [said for said, _ in found[part]]
    figures = found["figures"]
    assert (figures["engine"]["workers"], figures["engine"]["tensor_parallel"]) == ("2", processes)
    assert min(figures["joined"]) >= 8
    assert found["gone"] == {"running": 0.0, "gone": 1.0}
    assert found["exit_code"] == 0


def test_a_worker_that_ends_takes_the_server_with_it() -> None:
    """No half server that looks whole: the container ends, with an exit code that is not 0."""
    with Server(MODEL, ["--dtype", "float32", "--worker-num", "2"]) as server:
        os.kill(workers_of(server.process.pid)[1], signal.SIGKILL)
        until(lambda: server.process.poll() is not None, 30)
        assert server.process.poll() == 1


def workers_of(pid: int) -> list[int]:
    """The processes of the engines, below the supervisor and the process of the API."""
    (api,) = children(pid)
    return children(api)


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
