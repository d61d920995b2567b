"""A11: what a plan counts where GPUs share long prompts, what it says of that, and what it refuses."""

from __future__ import annotations

import dataclasses

import pytest
from windlass_api.plan.args import server_args
from windlass_api.plan.record import PlanRecord, recorded_plan

from .test_decide import L20, QWEN_7B, QWEN_72B, a_spec, planned, refused

TWO = {"sequenceParallelSize": 2}
SECOND = type(L20)("worker-9", "NVIDIA-L20", 44.99, 8, 8)


@pytest.mark.parametrize(
    ("engine", "gpus", "place"),
    [
        (TWO, 2, "2 × L20, TP 1, SP 2"),
        ({**TWO, "tensorParallelSize": 2}, 4, "4 × L20, TP 2, SP 2"),
        ({"sequenceParallelSize": 4, "tensorParallelSize": 2}, 8, "8 × L20, TP 2, SP 4"),
        ({**TWO, "tensorParallelSize": 2, "pipelineParallelSize": 2}, 8, "8 × L20, TP 2, PP 2, SP 2"),
        ({"sequenceParallelSize": 1}, 1, "1 × L20, TP 1"),
    ],
)
def test_the_cards_are_tp_times_pp_times_this(engine, gpus, place):
    plan = planned(engine=engine)
    assert (plan.gpus, plan.place()) == (gpus, place)


def test_each_card_has_all_weights_and_the_whole_cache():
    """A card needs what it needs alone; the replica twice as much."""
    alone, split = planned(), planned(engine=TWO)
    assert split.per_gpu_gib == alone.per_gpu_gib
    assert split.weights_gib == 2 * alone.weights_gib
    assert split.required_gib == 2 * alone.required_gib
    assert split.to_status()["perGPU"] == alone.to_status()["perGPU"]
    assert split.to_status()["sp"] == 2
    assert "sp" not in alone.to_status()


def test_the_given_cards_are_shared():
    """Tensor parallelism takes what is left of spec.resources.gpus, and the product must be whole."""
    assert planned(resources={"gpus": 4}, engine=TWO).tp == 2
    assert "is not a multiple of sequenceParallelSize 2" in refused(resources={"gpus": 1}, engine=TWO).message


def test_a_model_that_needs_several_cards_gets_them_for_each_part():
    """The smallest tensor parallelism that holds the model, on a node with room for two of it."""
    alone, split = planned(QWEN_72B, quantization=None), planned(QWEN_72B, engine=TWO)
    assert (alone.tp, split.tp, split.gpus) == (4, 4, 8)


def test_the_plan_sets_the_flag_and_comes_back_from_its_record():
    """The flag in the pod's command, and the size in the annotation that later reconciles read."""
    plan = planned(engine=TWO)
    words = server_args(a_spec(engine=TWO), plan)
    assert words[words.index("--sequence-parallel-size") + 1] == "2"
    assert "--sequence-parallel-size" not in server_args(a_spec(), planned())
    known = recorded_plan(PlanRecord("digest", plan).to_text())
    assert known is not None
    assert known.plan == plan


def test_the_plan_says_what_it_pays_for():
    """What a GPU sends for a token, beside what tensor parallelism would send."""
    reasons = planned(engine=TWO).because
    assert "prompts of 256 tokens or more are shared by 2 × 1 GPUs" in reasons
    said = next(one for one in reasons if one.startswith("a GPU sends"))
    assert "sends 28 KiB for a token of a prompt, and 392 KiB under tensor parallelism over 2 more" in said
    assert said.endswith("sharing pays for long prompts on GPUs without NVLink")


def test_a_long_context_on_many_cards_is_advised_to_split():
    """Where half of the cards hold the model; never for a short context or a plan that splits already."""
    long = {"maxModelLen": 32768}
    advised = [one for one in planned(resources={"gpus": 2}, engine=long).advice if "sequenceParallelSize 2" in one]
    assert len(advised) == 1
    assert "with engine.tensorParallelSize 1" in advised[0]
    for parts in ({"resources": {"gpus": 2}}, {"resources": {"gpus": 4}, "engine": {**long, **TWO}}):
        assert not [one for one in planned(**parts).advice if "sequenceParallelSize" in one]


@pytest.mark.parametrize(
    "parts",
    [
        {"engine": {"lookahead": {"enabled": True}}},
        {"engine": {"speculation": {"source": {"pvc": {"claimName": "d"}}}}},
        {"engine": {"prefixOffload": {"enabled": True, "memory": "4Gi"}}},
        {"engine": {"workers": 2}, "resources": {"gpus": 4}},
        {"args": ["--enable-lora"]},
        {"image": {"family": "deepspeed"}},
        {"command": ["sh"]},
        {"deployment": {"nodes": 2}, "resources": {"gpus": 4}, "nodes": (L20, SECOND)},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_what_would_be_refused_is_not_advised(parts):
    """The same plan without it has the advice."""
    long = {"maxModelLen": 32768, "tensorParallelSize": 2}
    plain = planned(engine=long)
    assert any("sequenceParallelSize 2" in one for one in plain.advice)
    plan = planned(**{"resources": {"gpus": 2}, **parts, "engine": {**long, **parts.get("engine", {})}})
    assert not [one for one in plan.advice if "sequenceParallelSize" in one]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"latent_kv_dim": 576}, "latent attention"),
        ({"num_experts": 8}, "mixture of experts"),
        ({"multimodal": True}, "images or sound"),
        ({"state_bytes": 4096}, "keep a state"),
    ],
)
def test_models_that_cannot_be_split(facts, why):
    """The same reasons as the server's."""
    refusal = refused(dataclasses.replace(QWEN_7B, **facts), engine=TWO)
    assert refusal.reason == "BadParallelism"
    assert why in refusal.message


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"engine": {"prefixOffload": {"enabled": True, "memory": "4Gi"}}}, "evicted prefixes"),
        ({"args": ["--enable-prefix-cache-offload", "--prefix-offload-mib", "64"]}, "evicted prefixes"),
        ({"env": [{"name": "USE_LOOKAHEAD", "value": "true"}]}, "beside lookahead"),
        ({"args": ["--use-lookahead"]}, "beside lookahead"),
        ({"args": ["--worker-num", "2"]}, "2 engines in one pod"),
        ({"args": ["--enable-lora"]}, "served by name"),
        ({"args": ["--lora-modules", "a=/data/a"]}, "served by name"),
        ({"args": ["--kv_transfer_config={}"]}, "--kv-transfer-config does not go with it"),
        ({"args": ["--runner", "pooling"]}, "does not generate"),
    ],
)
def test_what_the_server_refuses_beside_it(parts, why):
    """By field, flag or variable, before the pod takes its GPUs; a switch that is off again splits."""
    engine = {**TWO, **parts.get("engine", {})}
    refusal = refused(**{**parts, "engine": engine})
    assert refusal.reason == "BadParallelism"
    assert why in refusal.message
    assert refusal.remedy.startswith("leave it out, or ")


def test_adapters_are_merged_or_not_split():
    """Whether the model's source is one, or folders of the model hold them."""
    served = dataclasses.replace(QWEN_7B, adapters=1, lora_slots=1, lora_rank=8)
    assert "served by name" in refused(served, engine=TWO).message
    assert planned(dataclasses.replace(served, lora_slots=0), engine=TWO).sp == 2
    assert planned(served, engine=TWO, args=["--enable-lora=false"]).sp == 2


def test_no_gpus_and_no_second_node():
    """The size is of GPUs, and these are in one node."""
    assert "sequenceParallelSize is 2" in refused(resources={"gpus": 0}, engine=TWO).message
    spread = refused(nodes=(L20,), engine=TWO, deployment={"nodes": 2})
    assert "its GPUs are in one node" in spread.message


def test_the_flag_and_the_variable_count_too():
    """What the user's own words say is planned."""
    assert planned(args=["--sequence-parallel-size", "2"]).gpus == 2
    assert planned(env=[{"name": "SEQUENCE_PARALLEL_SIZE", "value": "2"}]).gpus == 2


@pytest.mark.parametrize(
    "parts",
    [
        {"env": [{"name": "SEQUENCE_PARALLEL_SIZE", "value": "2"}]},
        {"args": ["--sequence-parallel-size", "2"]},
    ],
    ids=["variable", "flag"],
)
def test_the_other_family_has_no_such_size(parts):
    """Its server would take one GPU of two."""
    refusal = refused(image={"family": "deepspeed"}, **parts)
    assert refusal.reason == "BadParallelism"
    assert "spec.image.family deepspeed has no such size" in refusal.message
