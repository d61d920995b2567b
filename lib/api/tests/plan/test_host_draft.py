"""A draft model on the host's cores in the plan: no GPU holds it, the pod's memory and processors do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.args import server_args
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.reconcile.desired_state import pod_shape
from windlass_operator.settings import Settings
from windlass_sizing.placement.host_draft import host_draft_gib
from windlass_testbed.cases import every_case

from .test_beside import DRAFT, DRAFTED, QWEN_7B, UNKNOWN
from .test_decide import QWEN_72B, a_spec, planned, refused
from .test_spread import PAIRS

SOURCE = {"pvc": {"claimName": "d"}}
ON_CPU = {"speculation": {"source": SOURCE, "runsOn": "cpu"}}
ON_GPU = {"speculation": {"source": SOURCE}}
DRAFTED_72B = replace(QWEN_72B, draft=DRAFT)


def parts(plan):
    return dict(plan.host_parts)


def test_no_gpu_holds_it_and_the_pods_memory_does():
    """All but the host's part is the plan without a draft model."""
    plain, plan = planned(facts=QWEN_7B), planned(facts=DRAFTED, engine=ON_CPU)
    assert (plan.per_gpu_gib, plan.kv_gib) == (plain.per_gpu_gib, plain.kv_gib)
    assert parts(plan)["draft model"] == pytest.approx(host_draft_gib(DRAFT, 256))
    assert parts(plan)["lookahead"] > 0
    assert any("draft model 1." in line and "(on the host's cores)" in line for line in plan.because)
    assert "draft model" not in parts(planned(facts=DRAFTED, engine=ON_GPU))


def test_four_bits_take_less():
    """By the flag or its variable, as the server reads them."""
    by_flag = planned(facts=DRAFTED, engine=ON_CPU, args=["--cpu-draft-bits", "4"])
    by_variable = planned(facts=DRAFTED, engine=ON_CPU, env=[{"name": "CPU_DRAFT_BITS", "value": "4"}])
    wrong = planned(facts=DRAFTED, engine=ON_CPU, args=["--cpu-draft-bits", "5"])
    assert parts(by_flag)["draft model"] == pytest.approx(host_draft_gib(DRAFT, 256, 4))
    assert parts(by_variable) == parts(by_flag)
    assert parts(wrong)["draft model"] == pytest.approx(host_draft_gib(DRAFT, 256))


def test_requests_beyond_64_have_no_keys_on_the_host():
    some = planned(facts=DRAFTED, engine={**ON_CPU, "maxNumSeqs": 8})
    assert parts(some)["draft model"] == pytest.approx(host_draft_gib(DRAFT, 8))
    assert host_draft_gib(DRAFT, 8) < host_draft_gib(DRAFT, 64) == host_draft_gib(DRAFT, 1000)


@every_case(
    "more, cpu, threads",
    [
        ({}, "9", 8),
        ({"engine": {**ON_CPU, "workers": 2}, "resources": {"gpus": 2}}, "18", 8),
        ({"engine": {**ON_CPU, "tensorParallelSize": 2}, "resources": {"gpus": 2}}, "10", 8),
        ({"resources": {"cpu": "16"}}, "16", 15),
        ({"resources": {"cpu": "2500m"}}, "2500m", 1),
        ({"resources": {"cpu": "500m"}}, "500m", 1),
        ({"engine": {**ON_CPU, "workers": 2}, "resources": {"gpus": 2, "cpu": "12"}}, "12", 5),
        ({"args": ["--cpu-draft-threads", "14"]}, "15", 14),
        ({"args": ["--cpu-draft-threads", "14"], "resources": {"cpu": "4"}}, "4", 14),
        ({"args": ["--cpu-draft-threads", "0"]}, "9", 8),
        ({"args": ["--cpu-draft-threads", "9" * 20]}, "9", 8),
        ({"resources": {"cpu": "16Gi"}}, "16Gi", 1023),
    ],
)
def test_threads_are_the_processors_that_the_pod_asks_for(more, cpu, threads):
    """A rank has one each, an engine's drafts the rest; a flag of the user's stays as it is."""
    spec = {"engine": ON_CPU, **more}
    plan = planned(facts=DRAFTED, **spec)
    assert (plan.cpu, plan.draft_threads) == (cpu, threads)
    words = server_args(a_spec(**spec), plan)
    assert words[words.index("--cpu-draft-threads") + 1] == str(threads)
    assert "--cpu-draft-worker" in words
    assert any(line.startswith(f"processors {cpu}: {threads} ") for line in plan.because)


def test_on_the_gpu_nothing_changes():
    """Neither with the field nor without it."""
    for speculation in (ON_GPU["speculation"], {**ON_GPU["speculation"], "runsOn": "gpu"}):
        spec = {"engine": {"speculation": speculation}}
        plan = planned(facts=DRAFTED, **spec)
        assert (plan.cpu, plan.draft_threads) == ("1", 0)
        words = [word for word in server_args(a_spec(**spec), plan) if word.startswith("--cpu-draft")]
        assert words == (["--cpu-draft-worker=false"] if "runsOn" in speculation else [])


@pytest.mark.parametrize(
    ("more", "is_on_host"),
    [
        ({"engine": ON_GPU, "args": ["--cpu-draft-worker"]}, True),
        ({"engine": ON_GPU, "env": [{"name": "CPU_DRAFT_WORKER", "value": "true"}]}, True),
        ({"engine": ON_CPU, "args": ["--cpu-draft-worker=false"]}, False),
        ({"engine": ON_CPU, "env": [{"name": "CPU_DRAFT_WORKER", "value": "false"}]}, True),
        ({"engine": {"speculation": {**ON_CPU["speculation"], "runsOn": "gpu"}},
          "env": [{"name": "CPU_DRAFT_WORKER", "value": "true"}]}, False),
        ({"engine": ON_CPU, "command": ["vllm", "serve", "/data/model"]}, False),
    ],
)  # fmt: skip
def test_the_last_word_is_the_servers(more, is_on_host):
    """A flag wins over the field, and the field over a variable."""
    assert ("draft model" in parts(planned(facts=DRAFTED, **more))) == is_on_host


@pytest.mark.parametrize(
    ("facts", "more", "message", "advice"),
    [
        (DRAFTED, {"resources": {"gpus": 0}}, "beside a GPU, and this service runs on CPUs",
         "leave that out"),
        (DRAFTED, {"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "0"}]}, "VLLM_USE_V2_MODEL_RUNNER is 0",
         "leave VLLM_USE_V2_MODEL_RUNNER out"),
        (replace(QWEN_7B, draft=UNKNOWN),
         {"engine": {"speculation": {"method": "eagle", "source": SOURCE}}, "args": ["--cpu-draft-worker"]},
         "run complete draft models, and the method is eagle", "let the head run on the GPU"),
        (DRAFTED, {"resources": {"gpus": 2}, "engine": {**ON_CPU, "pipelineParallelSize": 2}},
         "which is not possible for a model in 2 stages", "pipelineParallelSize to 1"),
        (replace(QWEN_7B, draft=replace(DRAFT, architecture="GPT2LMHeadModel")), {},
         "Qwen2ForCausalLM, Qwen3ForCausalLM, and it is a GPT2LMHeadModel",
         "let it run on the GPU"),
        (replace(QWEN_7B, draft=replace(DRAFT, quantization="gptq")), {}, "needs plain weights, and these are gptq",
         "take the model that it was made from"),
        (replace(QWEN_7B, draft=replace(DRAFT, head_dim=40)), {}, "head_dim is a multiple of 16, and it is 40",
         "take another draft model"),
        (replace(QWEN_7B, draft=replace(DRAFT, vocab_size=32000)), {}, "a vocabulary of 32000 tokens", "same family"),
    ],
)  # fmt: skip
def test_what_cannot_draft_on_the_host_takes_no_gpu(facts, more, message, advice):
    """As the server would refuse it at its start."""
    refusal = refused(facts=facts, **{"engine": ON_CPU, **more})
    assert refusal.reason == "DraftUnusable"
    assert message in refusal.message
    assert advice in refusal.remedy


def test_several_gpus_may_share_the_model_beside_lookahead():
    """On the GPU that is refused; the host drafts for all ranks."""
    two = {"tensorParallelSize": 2, "lookahead": {"enabled": True}}
    assert refused(facts=DRAFTED, engine={**ON_GPU, **two}, resources={"gpus": 2}).reason == "DraftUnusable"
    assert planned(facts=DRAFTED, engine={**ON_CPU, **two}, resources={"gpus": 2}).tp == 2


def test_all_nodes_of_a_group_have_room_for_the_drafts():
    """The first pod drafts, on any of the nodes: no pod asks for less, and the plan says so."""
    plain, plan = planned(QWEN_72B, PAIRS), planned(DRAFTED_72B, PAIRS, engine=ON_CPU)
    assert (plan.nodes, plan.gpus_per_pod, plan.tp, plan.pp) == (2, 2, 4, 1)
    assert (plain.cpu, plan.cpu, plan.draft_threads) == ("2", "10", 8)
    assert parts(plan)["draft model"] == pytest.approx(host_draft_gib(DRAFT, 256))
    assert (
        "processors 10 on each node, as all pods of a group ask for the same: 8 draft in the first pod, "
        "and one works for each GPU"
    ) in plan.because
    (memory,) = [line for line in plan.because if line.startswith("host memory ")]
    assert "(on the host's cores, in the first pod)" in memory
    assert memory.endswith(" on each node")


def test_one_template_makes_all_pods_of_a_group():
    """So the first pod, which drafts, gets the planned processors and memory only where every other one does."""
    spec = a_spec(engine=ON_CPU).model_dump(by_alias=True, exclude_none=True)
    service = LLMService.model_validate({"metadata": {"name": "qwen", "namespace": "a", "uid": "u"}, "spec": spec})
    plan = planned(DRAFTED_72B, PAIRS, engine=ON_CPU)
    settings = Settings(server_image="s", server_version="1", operator_image="o")
    shape = GroupShape(pod_shape(service, plan, settings), plan.nodes, plan.group)
    (one,) = [found for found in group_objects(service, shape, 1) if found["kind"] == "StatefulSet"]
    assert one["spec"]["replicas"] == plan.nodes
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": plan.cpu, "memory": plan.memory}
