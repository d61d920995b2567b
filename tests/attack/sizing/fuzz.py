"""Inspects and plans model directories of many seeds, each within a time and all within a memory limit.

`python tests/attack/sizing/fuzz.py FIRST COUNT` prints a line of JSON: how often each outcome came, and the seeds that
ended in anything but facts with a plan, or a named reason. A process of its own: memory is limited for it alone.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import model_files

ANSWER_BYTES_MAX = 4096  # of a termination message
INPUT_S = 2.0  # of processor time
WAIT_S = 60.0  # by the clock: other work on the machine takes its share
MEMORY_BYTES = 512 * 1024**2
FAILURES_SHOWN, CONFIG_SHOWN = 20, 1500


class OverdueError(Exception):
    """The input took longer than its time."""


def _over(*_: object) -> None:
    raise OverdueError(f"not done within {INPUT_S} s of processor time or {WAIT_S} s")


def _limit(wait_s: float, processor_s: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, wait_s)
    signal.setitimer(signal.ITIMER_PROF, processor_s)


def _inventory() -> Any:
    from windlass_api.plan.model import Inventory, NodeGpus

    nodes = (NodeGpus(f"n{number}", "NVIDIA-L20", 45.0, 8, 8, {}) for number in range(2))
    return Inventory(tuple(nodes))


def outcome(directory: Path, inventory: Any, spec: Any) -> str:
    """Facts with a plan, or the reason; what is wrong with the answer raises."""
    from windlass_api.plan.decide import decide
    from windlass_api.plan.model import Refusal
    from windlass_sizing.errors import FactsError
    from windlass_sizing.files import checkpoint
    from windlass_sizing.model.facts import ModelFacts

    line = checkpoint.inspect(directory.parent, directory.name, "pvc/models").to_json()
    assert len(line.encode()) <= ANSWER_BYTES_MAX, "the answer does not fit a termination message"
    answer = json.loads(line)
    if not answer["ok"]:
        assert answer["reason"] in checkpoint.REASONS, "the reason has no name"
        assert answer["message"], "the reason has no words"
        return str(answer["reason"])
    try:
        facts = ModelFacts.from_dict(answer["facts"])
    except FactsError:
        raise AssertionError("the operator refuses the facts of its own inspection") from None
    decided = decide(spec, facts, inventory)
    return decided.reason if isinstance(decided, Refusal) else "Planned"


def run(first: int, count: int) -> dict[str, Any]:
    """The outcomes of these seeds."""
    from windlass_api.crd.v1alpha1 import LLMServiceSpec

    source = {"nfs": {"server": "10.0.0.12", "path": "/models/a"}}
    spec = LLMServiceSpec.model_validate({"model": {"id": "m", "source": source}})
    inventory, found, failures = _inventory(), Counter[str](), []
    for one in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(one, _over)
    with tempfile.TemporaryDirectory(prefix="windlass-fuzz-") as folder:
        directory = Path(folder, "model")
        directory.mkdir()
        for seed in range(first, first + count):
            chance = random.Random(seed)  # noqa: S311 - chance decides the input, it hides nothing
            config = model_files.write(directory, chance)
            _limit(WAIT_S, INPUT_S)
            try:
                found[outcome(directory, inventory, spec)] += 1
            except Exception as error:
                failures.append({"seed": seed, "error": f"{type(error).__name__}: {str(error)[:200]}"})
                failures[-1]["config"] = json.dumps(config)[:CONFIG_SHOWN]
            finally:
                _limit(0, 0)
    return {"inputs": count, "outcomes": dict(found.most_common()), "failed": len(failures), "failures": failures}


def main() -> int:
    """Fuzz, print, and exit 1 when an input failed."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    answer = run(first, count)
    answer["failures"] = answer["failures"][:FAILURES_SHOWN]
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    answer["peak_mib"] = int(peak.split()[1]) // 1024
    print(json.dumps(answer))
    return 1 if answer["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
