"""The engine's own start commands in our image: our flags count, variables do not, the rest is the engine's."""

import subprocess
import sys
from pathlib import Path

import pytest
from windlass.errors import UsageError
from windlass.launch import hook
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, resolve
from windlass.license.model import Gpu

TWO = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"), Gpu("GPU-1", "NVIDIA L20")))
MODEL = ModelFiles("/data/model", max_model_len=32768, attention_heads=28)


def launch(line: str, machine: Machine = TWO, **environment: str) -> LaunchPlan:
    return resolve(tuple(line.split()), environment, MODEL, machine, NATIVE)


def engine_words(plan: LaunchPlan) -> tuple[str, ...]:
    """Without the guard's words."""
    return plan.engine_args[: plan.engine_args.index("--middleware")]


def test_nothing_is_filled_in() -> None:
    """Defaults and variables of `run` stay out; the engine's port is known."""
    plan = launch("/models/qwen", DTYPE="float32", MODEL_ID="x", TP="2")
    assert engine_words(plan) == ("--model", "/models/qwen")
    assert plan.port == 8000


def test_the_seeds_native_preset() -> None:
    """000: what the engine has passes, what it no longer has is told."""
    plan = launch(
        "/data/model --port 8501 -tp 2 --quantization fp8 --max-model-len 32768 --enable-prefix-caching "
        "--disable-log-requests --served-model-name model_123 --num-scheduler-steps 8"
    )
    words = " ".join(engine_words(plan))
    for said in ("--port 8501", "--tensor-parallel-size 2", "--quantization windlass_fp8", "--max-model-len 32768"):
        assert said in words
    assert plan.port == 8501
    assert "--num-scheduler-steps" not in words
    assert any("--num-scheduler-steps has no effect" in sentence for sentence in plan.warnings)


def test_conflicts_are_refused_as_with_run() -> None:
    """S29."""
    with pytest.raises(UsageError, match="tensor-parallel-size 4 is more than the 2 GPUs"):
        launch("--model /data/model -tp 4")


def test_the_cpu_image_cannot_compile() -> None:
    """What the machine cannot do is still changed."""
    plan = launch("/data/model", Machine("cpu", has_compiler=False))
    assert "--enforce-eager" in engine_words(plan)
    assert plan.variables["TORCHDYNAMO_DISABLE"] == "1"
    assert "TORCHDYNAMO_DISABLE" not in launch("/data/model").variables


@pytest.mark.parametrize(
    ("command", "environment", "expected"),
    [
        pytest.param(["python3", "-m", hook.ENGINE_MODULE, "--model", "/m"], {}, ["--model", "/m"], id="ours"),
        pytest.param(["python3", "-u", "-m", hook.ENGINE_MODULE], {}, [], id="no-flags"),
        pytest.param(["python3", "-m", hook.ENGINE_MODULE], {hook.CHILD: "1"}, None, id="the-engine-itself"),
        pytest.param(["python3", "-c", "pass", hook.ENGINE_MODULE], {}, None, id="only-an-argument"),
        pytest.param(["python3", "-m", "http.server"], {}, None, id="another-module"),
    ],
)
def test_which_commands_are_taken_over(
    command: list[str], environment: dict[str, str], expected: list[str] | None
) -> None:
    """Only the engine's server module, and only from outside."""
    assert hook.ours(command, environment) == expected


def test_a_python_with_our_line_becomes_windlass_serve(tmp_path: Path) -> None:
    """The whole way: the line runs as Python starts, before the module is looked for."""
    (tmp_path / "sitecustomize.py").write_text(hook.PTH + "\n")
    command = [sys.executable, "-m", hook.ENGINE_MODULE, "--model", str(tmp_path / "none"), "--explain"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (3, "")
    assert f"model directory {tmp_path / 'none'} is not there" in done.stderr
