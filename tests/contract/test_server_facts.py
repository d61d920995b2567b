"""Server ↔ operator: what the real board says is what the operator's parser understands."""

import json

from windlass.license.keeper import LicenseFacts
from windlass.startup.preread import Progress
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass_operator.status import facts as operator


def test_the_operator_reads_the_start_of_a_pod() -> None:
    """License and phases arrive, the reading ahead among them; parts that the operator does not know are let be."""
    seconds = iter(range(100))
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()), lambda: float(next(seconds)))
    board.set_license(LicenseFacts(True, "granted", "granted", ("GPU-a",)))
    board.enter("engine")
    board.set_preread(Progress("done", 1, 10, 10, 2.5))
    board.engine_said("INFO Starting to load model /data/model...")
    seen = operator.parse("qwen-0", json.loads(json.dumps(board.to_dict())))
    assert seen is not None
    assert seen.doing() == "pod qwen-0 loads the engine"
    assert seen.license_state == "granted"
    assert operator.startup([seen]) == [
        {"phase": "license", "seconds": "1.0"},
        {"phase": "prefetch", "seconds": "2.5"},
        {"phase": "engine-imports", "seconds": "1.0"},
    ]
