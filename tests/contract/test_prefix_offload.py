"""Operator → server: the host memory that the plan gives to evicted prefixes is what the server takes, and it fits."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from spec_changes import BASE, FACTS, INVENTORY, merged
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import server_args
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Plan
from windlass_api.plan.quantity import GIB, gib

MODEL = ModelFiles("/data/model", "qwen2", 131072, attention_heads=28, architecture="Qwen2ForCausalLM")


def started(**parts: object) -> tuple[Plan, LaunchPlan]:
    """The server of a planned pod, whose /dev/shm and memory are as large as planned."""
    spec = LLMServiceSpec.model_validate(merged(BASE, parts))
    plan = decide(spec, FACTS, INVENTORY)
    assert isinstance(plan, Plan), plan
    gpus = tuple(Gpu(f"GPU-{number}", "NVIDIA L20") for number in range(plan.gpus))
    memory, shared = (int(gib(text) * GIB) for text in (plan.memory, plan.shm))
    machine = Machine("cuda" if gpus else "cpu", gpus, memory_bytes=memory, shared_bytes=shared)
    return plan, resolve(server_args(spec, plan), {"HOME": "/cache"}, MODEL, machine)


def taken(launch: LaunchPlan) -> int:
    words = launch.engine_args
    return int(
        json.loads(words[words.index("--kv-transfer-config") + 1])["kv_connector_extra_config"]["cpu_bytes_to_use"]
    )


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param({"prefixOffload": {"enabled": True}}, id="a share"),
        pytest.param({"prefixOffload": {"enabled": True, "memory": "12Gi"}}, id="a size"),
        pytest.param({"prefixOffload": {"enabled": True, "memory": "12Gi"}, "workers": 2}, id="two engines"),
        pytest.param({"prefixOffload": {"enabled": True, "memory": "12.5Gi"}, "tensorParallelSize": 4}, id="four GPUs"),
    ],
)
def test_the_server_takes_what_is_planned(engine: dict[str, object]) -> None:
    """In MiB, and shared out among the engines; the volume that the plan makes holds it."""
    plan, launch = started(engine=engine)
    assert taken(launch) * plan.workers == plan.prefix_offload_mib * 2**20 > 0
    assert sum(size for _, size in plan.host_parts) <= gib(plan.memory)


def test_the_server_on_the_cpu_says_why_not() -> None:
    """One sentence, as the plan has one."""
    _, launch = started(engine={"prefixOffload": {"enabled": True}}, resources={"gpus": 0})
    assert "--kv-transfer-config" not in launch.engine_args
    said = [warning for warning in launch.warnings if "--enable-prefix-cache-offload" in warning]
    assert said == ["--enable-prefix-cache-offload is off for this start: the CPU engine's cache is in host memory"]
