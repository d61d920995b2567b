"""Operator → server: the plan's number of API processes is what the server starts, and both read the same words."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from windlass.launch import processes
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import server_args
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Plan
from windlass_sizing import engine_flags
from windlass_sizing.placement.api_processes import FLAGS_OF_ONE_PROCESS, FURTHER_GIB, STREAMS_AN_ENGINE
from windlass_sizing.settings.flags import ROW
from windlass_testbed.cases import every_case

sys.path.insert(0, str(Path(__file__).parent))

from spec_changes import BASE, DRAFT_FACTS, FACTS, INVENTORY

NODE = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),), processors=64)
FILES = ModelFiles("/data/model", "qwen2", 131072, attention_heads=28)
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_requests_at_a_time_have_one_default() -> None:
    """The server's choice of processes and its flag."""
    assert ROW["limit-worker-concurrency"].default == str(STREAMS_AN_ENGINE)


@every_case("flag", sorted(FLAGS_OF_ONE_PROCESS))
def test_the_pinned_engine_has_the_flag(flag: str) -> None:
    """A flag that a newer engine renames would leave several processes."""
    assert flag in engine_flags.record().takes


@pytest.mark.parametrize(
    ("words", "variables", "cpu", "number"),
    [
        ([], {}, None, 1),
        ([], {}, "6", 4),
        (["--limit-worker-concurrency", "64"], {}, "16", 2),
        ([], {"MAX_CONCURRENCY": "96"}, "16", 3),
        (["--api-server-count", "2"], {}, "16", 2),
        (["--api-server-count=1"], {"API_SERVER_COUNT": "3"}, "16", 1),
        ([], {"API_SERVER_COUNT": "3"}, "1", 3),
        ([], {"VLLM_ENABLE_RESPONSES_API_STORE": "1"}, "16", 1),
    ],
)
def test_the_server_starts_what_is_planned(words: list[str], variables: dict[str, str], cpu: str | None, number: int):
    """On a node with more cores than the pod asks for; the pod's memory counts them."""
    env = [{"name": name, "value": value} for name, value in variables.items()]
    spec = LLMServiceSpec.model_validate({**BASE, "args": words, "env": env, "resources": {"cpu": cpu}})
    plan = decide(spec, FACTS, INVENTORY)
    assert isinstance(plan, Plan), plan
    started = resolve(server_args(spec, plan), {**POD, **variables}, FILES, NODE)
    assert processes.count(started.value(processes.NAME)) == number
    assert dict(plan.host_parts).get("API processes", 0) == pytest.approx((number - 1) * FURTHER_GIB)


def test_a_draft_model_on_the_card_has_its_core():
    """Its drafting thread takes one, as that of the lookahead cache does."""
    for engine in ({"lookahead": {"enabled": True}}, {"speculation": {"source": {"pvc": {"claimName": "d"}}}}):
        spec = LLMServiceSpec.model_validate({**BASE, "engine": engine, "resources": {"cpu": "6"}})
        facts = replace(FACTS, draft=DRAFT_FACTS) if "speculation" in engine else FACTS
        plan = decide(spec, facts, INVENTORY)
        assert isinstance(plan, Plan), plan
        assert plan.api_processes == 3
