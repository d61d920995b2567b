"""What a GPU image must do on a machine without a GPU, as a table; each row runs in the built image.

Every row runs as the image's own user, without a network, on a root that is read-only. `judge` functions are pure:
what a program printed and its exit code → what is wrong, or an empty string.
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.daemon import docker_env
from windlass_testbed.paths import REPOSITORY, TESTBED, Paths

USER = 10001
# A card by its UUID alone, as a container has it whose driver is not there yet.
CARD = "NVIDIA_VISIBLE_DEVICES=GPU-00000000-0000-0000-0000-000000000000"
INSIDE = "/inside.py"
CPU = ("DS_ACCELERATOR=cpu", "WINDLASS_ENGINE=cpu", "DTYPE=float32")
# The C++ library of GCC 12 (Debian 12, Ubuntu 22.04) is GLIBCXX_3.4.30.
GLIBCXX = 30
RESULT = "RESULT "
TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program printed, and its exit code."""

    code: int
    output: str
    errors: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One row: its name, the command, variables, and what judges it."""

    name: str
    words: tuple[str, ...]
    judge: Callable[[Outcome], str]
    variables: tuple[str, ...] = ()


def ends_well(outcome: Outcome) -> str:
    """The program ends with 0 and prints something."""
    return (
        "" if outcome.code == 0 and outcome.output.strip() else f"exit {outcome.code}: {outcome.errors.strip()[-300:]}"
    )


def explains(outcome: Outcome) -> str:
    """`--explain` names the engine's command line for the model."""
    return ends_well(outcome) or (
        "" if "engine: " in outcome.output and "/data/model" in outcome.output else "no engine line"
    )


def misses_the_driver_alone(outcome: Outcome) -> str:
    """`doctor` finds the engine and the model, and says that the driver is missing."""
    try:
        rows = {row["name"]: row for row in json.loads(outcome.output)["checks"]}
    except (ValueError, KeyError, TypeError):
        return f"no document: {outcome.output[-200:]}{outcome.errors[-200:]}"
    wrong = [
        name for name in ("flags", "engine", "checkpoint") if rows.get(name, {}).get("outcome") not in ("ok", "warn")
    ]
    driver = rows.get("driver", {}).get("outcome")
    return (f"{wrong[0]}: {rows.get(wrong[0])}" if wrong else "") or ("" if driver == "fail" else f"driver: {driver}")


def _is_bound(core: dict[str, object]) -> bool:
    """Whether the core asks for this image's own Python or C++ library; an image without one has none to ask."""
    is_stable = str(core.get("file", ".abi3.so")).endswith(".abi3.so")
    return not is_stable or int(str(core.get("glibcxx", 0))) > GLIBCXX


def answers_as_alone(outcome: Outcome) -> str:
    """Every answer out of a batch is what transformers gives for its prompt alone (`tests_real/real.py`)."""
    lines = [line.removeprefix(RESULT) for line in outcome.output.splitlines() if line.startswith(RESULT)]
    if outcome.code or not lines:
        return f"exit {outcome.code}: {outcome.errors.strip()[-300:]}"
    seen = json.loads(lines[-1])
    pairs = [*seen["together"], *seen["joined"]]
    other = [pair for pair in pairs if pair[0] != pair[1]]
    return f"{len(other)} of {len(pairs)} answers differ: {other[:1]}" if other or not pairs else ""


def is_whole(*capabilities: str) -> Callable[[Outcome], str]:
    """What `inside/gpu_image.py` saw: user, root, parts, modules, plug-ins, and kernels for these capabilities."""

    def judge(outcome: Outcome) -> str:
        if outcome.code:
            return f"exit {outcome.code}: {outcome.errors.strip()[-300:]}"
        seen = json.loads(outcome.output.strip().splitlines()[-1])
        wrong = {
            "runs as": [seen["user"]] if seen["user"] != USER else [],
            "can write": seen["writable"],
            "not on the list of parts": seen["unlisted"],
            "on the list of parts and not there": seen["absent"],
            "does not import": seen["broken"],
            "plug-in": {name: error for name, error in seen["plugins"].items() if error},
            "the core loads in this image alone": _is_bound(seen["core"]) and seen["core"],
            "no kernels for": [one for one in capabilities if one not in seen["kernels"]],
        }
        return "; ".join(f"{name}: {value}" for name, value in wrong.items() if value)

    return judge


CHECKS: dict[str, tuple[Check, ...]] = {
    "server": (
        Check("version", ("windlass", "version"), ends_well),
        Check("doctor", ("windlass", "doctor", "/data/model", "-o", "json"), misses_the_driver_alone, (CARD,)),
        Check("explain", ("windlass", "run", "/data/model", "--explain"), explains, (CARD,)),
        Check(
            "lookahead",
            ("windlass", "run", "/data/model", "--use-lookahead", "--quantization", "ifq_nf4", "--explain"),
            explains,
            (CARD,),
        ),
        Check("whole", ("python3", INSIDE, "windlass", "windlass_lookahead"), is_whole("sm_80", "sm_90")),
    ),
    "deepspeed-gpu": (
        Check("version", ("windlass-deepspeed", "version"), ends_well, CPU),
        Check("whole", ("python3", INSIDE, "windlass_deepspeed"), is_whole("sm_70", "sm_80", "sm_90"), CPU),
        Check("answers", ("python3", "/real.py", "/data/model"), answers_as_alone, CPU),
    ),
}


def command(image: str, check: Check, mounts: dict[Path, str]) -> list[str]:
    """The `docker run` of a row."""
    flags = ["--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--tmpfs", f"/cache:uid={USER},gid={USER}"]  # noqa: S108 - in the container
    flags += [word for source, target in mounts.items() for word in ("--volume", f"{source}:{target}:ro")]
    flags += [word for variable in check.variables for word in ("--env", variable)]
    return ["/usr/bin/docker", "run", *flags, "--entrypoint", check.words[0], image, *check.words[1:]]


def run(paths: Paths, image: str, check: Check) -> str:
    """Run a row in an image; what is wrong, or an empty string."""
    mounts = {
        TESTBED / "inside/gpu_image.py": INSIDE,
        REPOSITORY / "models/demo": "/data/model",
        REPOSITORY / "server/deepspeed/tests_real/real.py": "/real.py",
    }
    env = os.environ | docker_env(paths)
    words = command(image, check, mounts)
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=TIMEOUT_S, check=False)
    return check.judge(Outcome(done.returncode, done.stdout, done.stderr))
