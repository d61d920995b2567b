"""The API processes of a pod: chosen by the processors that it asks for, or by the user's words, and in its memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_api.plan.args import server_args
from windlass_api.plan.quantity import gib
from windlass_api.plan.record import PlanRecord, recorded_plan
from windlass_sizing.placement.api_processes import FURTHER_GIB
from windlass_testbed.cases import every_case

from .test_beside import DRAFTED
from .test_decide import L20, QWEN_7B, a_spec, planned
from .test_spread import PAIRS

WIDE = {"resources": {"cpu": "16"}}
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
ON_CPU = {"speculation": {"source": {"pvc": {"claimName": "d"}}, "runsOn": "cpu"}}
PART = "API processes"


def words_of(spec, plan):
    words = server_args(a_spec(**spec), plan)
    return [words[at + 1] for at, word in enumerate(words) if word == "--api-server-count"]


@every_case(
    "spec, number",
    [
        ({}, 1),
        (WIDE, 4),
        ({"resources": {"cpu": "4"}}, 2),
        ({"resources": {"cpu": "4500m"}}, 2),
        ({"resources": {"cpu": "500m"}}, 1),
        ({**WIDE, "engine": {"maxConcurrency": 64}}, 2),
        ({**WIDE, "engine": {"maxConcurrency": 16}}, 1),
        ({**WIDE, "engine": {"maxConcurrency": 16}, "args": ["--limit-worker-concurrency", "96"]}, 3),
        ({**WIDE, "env": [{"name": "MAX_CONCURRENCY", "value": "64"}]}, 2),
        ({**WIDE, "engine": {"maxConcurrency": 16}, "env": [{"name": "MAX_CONCURRENCY", "value": "64"}]}, 1),
        ({**WIDE, "args": ["--limit-worker-concurrency", "9" * 20]}, 4),
        ({**WIDE, "args": ["--limit-worker-concurrency", "0"]}, 1),
        ({"resources": {"gpus": 2, "cpu": "7"}, "engine": {"workers": 2}}, 3),
        ({"resources": {"gpus": 2, "cpu": "5"}}, 2),
        ({"resources": {"cpu": "5"}, "engine": {"lookahead": {"enabled": True}}}, 2),
    ],
)
def test_the_pods_processors_choose(spec, number):
    """One for 32 requests at a time; GPUs, engines and drafts have their processors first."""
    plan = planned(**spec)
    assert plan.api_processes == number
    assert words_of(spec, plan) == ([str(number)] if number > 1 else [])
    assert dict(plan.host_parts).get(PART, 0) == pytest.approx((number - 1) * FURTHER_GIB)
    assert any(line.startswith(f"{number} API processes: ") for line in plan.because) == (number > 1)


def test_the_memory_grows_by_the_further_ones():
    """As a part with its name."""
    few, many = planned(), planned(**WIDE)
    assert dict(many.host_parts).keys() - dict(few.host_parts).keys() == {PART}
    assert gib(few.memory) + 3 <= gib(many.memory) <= gib(few.memory) + 4
    assert any("API processes 3.60 (3 beside the first)" in line for line in many.because)


def test_memory_of_the_spec_bounds_the_choice():
    """A service with just enough for one keeps one."""
    enough, one = gib(planned(**WIDE).memory), gib(planned().memory)
    for memory, number in ((enough, 4), (enough - 1, 3), (one, 1), (one - 5, 1)):
        assert planned(resources={"cpu": "16", "memory": f"{memory:g}Gi"}).api_processes == number


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"args": ["--api-server-count", "2"]}, 2),
        ({"args": ["--api-server-count=3"]}, 3),
        ({"args": ["--api-server-count", "1"]}, 1),
        ({"env": [{"name": "API_SERVER_COUNT", "value": "3"}]}, 3),
        ({"env": [{"name": "API_SERVER_COUNT", "valueFrom": SECRET}]}, 1),
        ({"args": ["--api-server-count", "many"]}, 1),
        ({"args": ["--api-server-count", "9" * 20]}, 1),
        ({"args": ["--api-server-count", "2"], "resources": {"gpus": 0, "cpu": "16"}}, 2),
    ],
)
def test_the_users_number_stays_and_is_counted(spec, counted):
    """The plan adds no flag of its own, which would win over the variable."""
    plan = planned(**{**WIDE, **spec})
    assert plan.api_processes == 1
    assert "--api-server-count" not in server_args(a_spec(**spec), plan)[: -len(spec.get("args", ())) or None]
    assert dict(plan.host_parts).get(PART, 0) == pytest.approx((counted - 1) * FURTHER_GIB)


@pytest.mark.parametrize(
    ("facts", "spec"),
    [
        (QWEN_7B, {"resources": {"gpus": 0, "cpu": "16"}}),
        (replace(QWEN_7B, multimodal=True), WIDE),
        (QWEN_7B, {**WIDE, "image": {"family": "deepspeed"}}),
        (QWEN_7B, {**WIDE, "command": ["vllm", "serve", "/data/model"]}),
        (QWEN_7B, {**WIDE, "env": [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "1"}]}),
        (QWEN_7B, {**WIDE, "env": [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "valueFrom": SECRET}]}),
        (QWEN_7B, {**WIDE, "args": ["--enable-elastic-ep"]}),
        (DRAFTED, {**WIDE, "engine": ON_CPU}),
    ],
    ids=["CPU", "images", "DeepSpeed", "own command", "adapters", "a Secret", "elastic", "drafts have all"],
)
def test_one_serves_where_several_do_not_fit(facts, spec):
    """Whatever processors the pod asks for."""
    plan = planned(facts=facts, **spec)
    assert (plan.api_processes, PART in dict(plan.host_parts)) == (1, False)


def test_drafts_with_fewer_threads_leave_processors():
    """Of 16: a GPU, an engine, its drafting thread and 9 threads of the draft model."""
    plan = planned(facts=DRAFTED, engine=ON_CPU, args=["--cpu-draft-threads", "9"], **WIDE)
    assert (plan.draft_threads, plan.api_processes) == (9, 4)
    plan = planned(facts=DRAFTED, engine=ON_CPU, args=["--cpu-draft-threads", "11"], **WIDE)
    assert (plan.draft_threads, plan.api_processes) == (11, 2)


def test_a_group_of_pods_has_one():
    """Its followers have no API."""
    plan = planned(nodes=PAIRS, deployment={"nodes": 2}, resources={"cpu": "16", "gpus": 4})
    assert (plan.nodes, plan.api_processes) == (2, 1)


def test_each_process_has_a_cache_of_images_where_a_flag_sizes_it():
    """As the engine counts: API processes and engines."""
    spec = {**WIDE, "args": ["--mm-processor-cache-gb", "2"]}
    assert dict(planned(**spec).host_parts)["processor cache"] == 2 * (4 + 1)


def test_a_record_of_an_older_operator_stays_in_force():
    """It has no such field, and starts one process."""
    one, four = planned(nodes=(L20,)), planned(**WIDE)
    assert "api_processes" not in PlanRecord("d", one).to_text()
    for plan in (one, four):
        assert recorded_plan(PlanRecord("d", plan).to_text()).plan == plan
