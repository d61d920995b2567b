"""Server ↔ operator: what the real board says is what the operator's parser understands."""

import json
from pathlib import Path

from windlass.engine.prefix_offload import counts
from windlass.engine.prefix_offload.hits import HitCount
from windlass.engine.startup import phases
from windlass.engine.startup.preread import Progress
from windlass.errors import EngineStalledError, FirstChatError
from windlass.license.keeper import LicenseFacts
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.termination import last_words
from windlass_operator.records.base import Meta
from windlass_operator.records.pods import ContainerStatus, Pod, Terminated
from windlass_operator.status import crashes, reasons
from windlass_operator.status import facts as operator
from windlass_operator.status.failure import Failure


def test_the_operator_reads_the_start_of_a_pod() -> None:
    """License and phases arrive, the reading ahead among them; parts that the operator does not know are let be."""
    seconds = iter(range(100))
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()), lambda: float(next(seconds)))
    board.set_license(LicenseFacts(True, "granted", "granted", ("GPU-a",)))
    board.enter("engine")
    board.set_preread(Progress("done", 1, 10, 10, 2.5))
    board.note_output("INFO Starting to load model /data/model...")
    seen = operator.parse("qwen-0", json.loads(json.dumps(board.to_dict())))
    assert seen is not None
    assert seen.doing() == "pod qwen-0 loads the engine"
    assert seen.license_state == "granted"
    assert operator.startup([seen]) == [
        {"phase": "license", "seconds": "1.0"},
        {"phase": "prefetch", "seconds": "2.5"},
        {"phase": "engine-imports", "seconds": "1.0"},
    ]


def test_a_start_that_reads_the_model_says_so() -> None:
    """A volume that hangs is not shown as a license that is asked for."""
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()), phase=phases.MODEL)
    seen = operator.parse("qwen-0", board.to_dict())
    assert seen is not None
    assert seen.doing() == "pod qwen-0 reads the model's files"
    board.enter(phases.LICENSE)
    assert [row["phase"] for row in board.to_dict()["phases"]] == ["model"]


def test_the_first_chat_and_its_failure_are_reported() -> None:
    """The phase has words, a failure brings its sentence, and the last words the same reason with a remedy."""
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()))
    board.enter(phases.FIRST_CHAT)
    seen = operator.parse("qwen-0", board.to_dict())
    assert seen is not None
    assert seen.doing() == "pod qwen-0 asks itself a first chat"
    error = FirstChatError("the engine is up and answers a chat with HTTP 500: the parser broke")
    board.fail(error)
    seen = operator.parse("qwen-0", json.loads(json.dumps(board.to_dict())))
    assert seen is not None
    assert seen.doing() == f"pod qwen-0 has failed: {error}"
    words = Terminated(exit_code=error.exit_code, message=last_words(error, "INFO its log"))
    pod = Pod(metadata=Meta(name="qwen-0"))
    failure = crashes.crash(pod, ContainerStatus(name="server"), words, init=False)
    assert (failure.reason, failure.exit_code) == ("FirstChatFailed", 8)
    assert str(error) in failure.message
    assert crashes.EXIT_REASONS[error.exit_code] == error.reason
    assert not reasons.row(error.reason).retryable


def test_an_engine_that_hangs_is_reported_before_it_ends() -> None:
    """The kubelet knows of a refused probe only; the pod's own words take its place."""
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()))
    board.set_stall("the engine holds 3 requests and has ended no step for 300 s")
    seen = operator.parse("qwen-0", json.loads(json.dumps(board.to_dict())))
    assert seen is not None
    silent = Failure("NotAnswering", "container server of pod qwen-0 runs and does not answer", "server")
    told = operator.stalled([seen], silent)
    assert told is not None
    assert told.reason == EngineStalledError.reason
    assert told.message == "pod qwen-0: the engine holds 3 requests and has ended no step for 300 s"
    assert operator.stalled([seen], None) is None
    other = Failure("NotAnswering", "container server of pod qwen-01 runs and does not answer", "server")
    assert operator.stalled([seen], other) is other
    assert crashes.EXIT_REASONS[EngineStalledError.exit_code] == EngineStalledError.reason
    assert reasons.row(EngineStalledError.reason).retryable


def test_the_operator_reads_where_prompts_were_found(tmp_path: Path) -> None:
    """What the engine's API counted arrives as `status.prefixCache`."""
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()))
    board.set_counts(tmp_path)
    counts.write(tmp_path, 0, HitCount(16, asked=1600, card=160, host=640))
    seen = operator.parse("qwen-0", json.loads(json.dumps(board.to_dict())))
    assert seen is not None
    assert operator.prefix_cache([seen]) == {"gpuPercent": 10, "hostPercent": 40, "computedPercent": 50}


def test_the_operator_reads_the_engine_s_memory() -> None:
    """Figures of the engine's log arrive as `status.plan.measured`; of several workers the first one's count."""
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()))
    for line in (
        "INFO Model loading took 14.25 GiB memory and 5.100000 seconds",
        "INFO Model loading took 14.26 GiB memory and 5.200000 seconds",
        "INFO Available KV cache memory: 21.5 GiB",
        "INFO GPU KV cache size: 402,480 tokens, Maximum concurrency for 8,192 tokens per request: 49.13x",
    ):
        board.note_output(line)
    seen = operator.parse("qwen-0", json.loads(json.dumps(board.to_dict())))
    assert seen is not None
    assert operator.measured([seen], "") == {
        "weightsGib": "14.25",
        "kvCacheGib": "21.50",
        "kvTokens": 402480,
        "pod": "qwen-0",
    }
