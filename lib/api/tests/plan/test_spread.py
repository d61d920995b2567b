"""Replicas over several nodes: when, how they are split, what a pod asks for, and the sentences of refusals."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Placement, Plan
from windlass_sizing.placement.parallel import divides
from windlass_testbed.cases import every_case

from .test_decide import L20, QWEN_7B, QWEN_72B, a_spec, planned, refused


def nodes(count: int, cards: int, product: str = "NVIDIA-L20", gib: float = 44.99) -> tuple[NodeGpus, ...]:
    return tuple(NodeGpus(f"{product}-{cards}-{n}", product, gib, cards, cards) for n in range(count))


PAIRS = nodes(4, 2)
A10S = nodes(4, 1, "NVIDIA-A10", 22.49)
DISTRIBUTED = {"mode": "Distributed"}


def test_one_node_is_taken_while_it_is_enough():
    """Auto spreads nothing that fits one node, however many there are."""
    plan = planned(QWEN_72B, nodes(4, 4))
    assert (plan.nodes, plan.gpus, plan.group) == (1, 4, None)
    assert "group" not in plan.to_status()


def test_what_no_node_holds_is_spread_over_equal_nodes():
    """Four cards of two nodes, one tensor parallel group over both, joined by Ray; the plan says why."""
    plan = planned(QWEN_72B, PAIRS)
    assert (plan.nodes, plan.gpus, plan.tp, plan.pp, plan.group) == (2, 4, 4, 1, "Ray")
    assert plan.summary().startswith("4 × L20, TP 4, on 2 nodes by Ray, context 8192, ")
    assert any(line.startswith("2 nodes: no single node holds it, not even 2 × L20: ") for line in plan.because)
    assert any(line.startswith("2 nodes × 2 × L20, TP 2, PP 2: ") for line in plan.alternatives)
    assert (plan.to_status()["nodes"], plan.to_status()["group"]) == (2, "Ray")


def test_cpu_memory_and_shm_are_those_of_one_pod():
    """Half of a replica over two nodes, and less than one pod with all of it would ask for."""
    spread, alone = planned(QWEN_72B, PAIRS), planned(QWEN_72B, nodes(1, 4))
    assert (spread.cpu, spread.shm, spread.gpus_per_pod) == ("2", "3Gi", 2)
    assert (alone.cpu, alone.shm, alone.gpus_per_pod) == ("4", "5Gi", 4)
    half = max(spread.weights_gib, spread.required_gib) / 2 * 1.1
    assert half < int(spread.memory.removesuffix("Gi")) < half + 8


def test_distributed_spreads_even_what_fits_one_node():
    """As many nodes as asked, two by default; a given total is shared evenly."""
    assert planned(nodes=PAIRS, deployment=DISTRIBUTED).nodes == 2
    plan = planned(nodes=PAIRS, deployment={**DISTRIBUTED, "nodes": 4})
    assert (plan.nodes, plan.gpus, plan.tp) == (4, 4, 4)
    assert "4 nodes, as spec.deployment asks" in plan.because
    plan = planned(nodes=PAIRS, deployment={"nodes": 2, "group": "Native"}, resources={"gpus": 4})
    assert (plan.nodes, plan.gpus, plan.gpus_per_pod, plan.group) == (2, 4, 2, "Native")


def test_more_cards_than_any_node_has_are_taken_from_several():
    """A count that the user gives is kept."""
    plan = planned(QWEN_72B, nodes(3, 8), resources={"gpus": 16})
    assert (plan.nodes, plan.gpus, plan.tp) == (2, 16, 16)
    assert "2 nodes: no single node has 16 × L20" in plan.because


def test_given_tp_and_pp_are_kept():
    """Either alone, or both."""
    sixteen = nodes(2, 8)
    both = planned(QWEN_72B, sixteen, resources={"gpus": 16}, engine={"tensorParallelSize": 8})
    assert (both.tp, both.pp, both.nodes) == (8, 2, 2)
    stages = planned(QWEN_72B, PAIRS, deployment={"nodes": 2}, engine={"pipelineParallelSize": 2})
    assert (stages.tp, stages.pp, stages.nodes) == (2, 2, 2)
    one_node = planned(QWEN_72B, nodes(1, 8), engine={"pipelineParallelSize": 2, "tensorParallelSize": 4})
    assert (one_node.gpus, one_node.tp, one_node.pp, one_node.nodes) == (8, 4, 2, 1)


def test_heads_that_do_not_divide_go_over_stages():
    """Forty heads on sixteen cards: TP 8 in each node, a stage for each."""
    forty = dataclasses.replace(QWEN_72B, num_attention_heads=40, num_key_value_heads=8)
    plan = planned(forty, nodes(2, 8), resources={"gpus": 16})
    assert (plan.tp, plan.pp, plan.nodes) == (8, 2, 2)


def test_workers_take_their_cards_each():
    """GPUs of a pod are TP × PP × workers; memory counts every engine."""
    one, two = planned(), planned(engine={"workers": 2})
    assert (two.gpus, two.tp, two.workers, two.nodes) == (2, 1, 2, 1)
    assert two.weights_gib == pytest.approx(2 * one.weights_gib)
    assert two.required_gib == pytest.approx(2 * one.required_gib)
    assert two.to_status()["perGPU"] == one.to_status()["perGPU"]
    given = planned(resources={"gpus": 4}, engine={"workers": 2})
    assert (given.gpus, given.tp, given.workers) == (4, 2, 2)
    on_cpu = planned(nodes=(), resources={"gpus": 0}, engine={"workers": 2})
    assert (on_cpu.gpus, on_cpu.workers, on_cpu.cpu) == (0, 2, "2")
    assert planned(args=["--worker-num", "2"]).gpus == 2


def test_the_memory_of_a_card_is_reported():
    """What is needed of one card, and what it has."""
    status = planned(QWEN_72B, PAIRS).to_status()["perGPU"]
    assert set(status) == {"weightsGib", "kvCacheGib", "overheadGib", "requiredGib", "haveGib"}
    assert status["haveGib"] == "44.99"
    assert "perGPU" not in planned(nodes=(), resources={"gpus": 0}).to_status()


def test_shared_memory_is_as_asked():
    """It counts in the container's memory."""
    plan, more = planned(), planned(resources={"sharedMemory": "8Gi"})
    assert more.shm == "8Gi"
    assert int(more.memory.removesuffix("Gi")) == int(plan.memory.removesuffix("Gi")) + 7


def test_a_running_group_is_kept():
    """A large node that joins does not move it; the same cards on one node are another placement."""
    everywhere = (*PAIRS, *nodes(1, 8))
    assert planned(QWEN_72B, everywhere, keep=Placement("L20", 4, 2)).nodes == 2
    assert planned(QWEN_72B, everywhere).nodes == 1


CASES = {
    "distributed on one node": (
        {"deployment": {**DISTRIBUTED, "nodes": 1}},
        "BadParallelism",
        "mode is Distributed and spec.deployment.nodes is 1; set nodes to 2 or more",
    ),
    "standard on two": ({"deployment": {"mode": "Standard", "nodes": 2}}, "BadParallelism", "is Standard and nodes"),
    "a group on the CPU": (
        {"deployment": DISTRIBUTED, "resources": {"gpus": 0}},
        "BadParallelism",
        "spec.resources.gpus is 0: the service runs on the CPU of one node and cannot be spread over nodes",
    ),
    "a group of workers": ({"deployment": {"nodes": 2}, "engine": {"workers": 2}}, "BadParallelism", "share one pod"),
    "a group with an own command": (
        {"deployment": {"nodes": 2}, "command": ["vllm", "serve"]},
        "BadParallelism",
        "spec.command is not Windlass's own",
    ),
    "uneven": (
        {"deployment": {"nodes": 3}, "resources": {"gpus": 4}},
        "BadParallelism",
        "4 is not a multiple of 3 nodes",
    ),
    "not the product": (
        {"resources": {"gpus": 8}, "engine": {"tensorParallelSize": 2, "pipelineParallelSize": 2}},
        "BadParallelism",
        "spec.resources.gpus 8 is not tensorParallelSize 2 × pipelineParallelSize 2",
    ),
    "workers do not divide": (
        {"resources": {"gpus": 3}, "engine": {"workers": 2}},
        "BadParallelism",
        "spec.resources.gpus 3 is not a multiple of workers 2",
    ),
    "too many stages": (
        {"engine": {"pipelineParallelSize": 99}},
        "BadParallelism",
        "28 layers cannot be cut into 99 stages",
    ),
    "too few nodes": (
        {"nodes": (L20,), "deployment": DISTRIBUTED},
        "NotEnoughGpus",
        "2 nodes of one kind of GPU are asked for a replica, and there are: 1 node with up to 8 × L20; add nodes",
    ),
    "too few cards on all nodes": (
        {"nodes": PAIRS, "resources": {"gpus": 16}},
        "NotEnoughGpus",
        "has 2 × NVIDIA-L20; 4 nodes have that GPU, 8 in all",
    ),
    "one node was asked for": (
        {"nodes": PAIRS, "resources": {"gpus": 4}, "deployment": {"mode": "Standard"}},
        "NotEnoughGpus",
        "or leave spec.deployment out to spread it over nodes",
    ),
    "not on any number of nodes": (
        {"facts": QWEN_72B, "nodes": A10S},
        "DoesNotFit",
        "the largest placement, 4 nodes × 1 × A10, TP 4: ",
    ),
}


@every_case("case, reason, words", CASES.values(), ids=CASES.keys())
def test_a_refusal_says_what_where_and_what_to_do(case, reason, words):
    refusal = refused(**case)
    assert (refusal.reason, words in refusal.sentence()) == (reason, True), refusal.sentence()


def test_a_model_that_only_a_spread_holds_is_reported_when_one_node_is_wanted():
    """Standard keeps to one node and refuses."""
    assert refused(QWEN_72B, PAIRS, deployment={"mode": "Standard"}).reason == "DoesNotFit"


counts = st.lists(st.integers(1, 8), min_size=1, max_size=8)
requested = st.fixed_dictionaries(
    {
        "deployment": st.fixed_dictionaries(
            {},
            optional={
                "mode": st.sampled_from(["Auto", "Standard", "Distributed"]),
                "nodes": st.integers(1, 6),
                "group": st.sampled_from(["Auto", "Ray", "Native"]),
            },
        ),
        "resources": st.fixed_dictionaries({}, optional={"gpus": st.integers(0, 32)}),
        "engine": st.fixed_dictionaries(
            {},
            optional={
                "tensorParallelSize": st.integers(1, 32),
                "pipelineParallelSize": st.integers(1, 8),
                "workers": st.integers(1, 4),
            },
        ),
    }
)


@settings(deadline=None)
@given(counts, requested, st.sampled_from([QWEN_7B, QWEN_72B]))
def test_every_plan_can_be_placed_and_keeps_what_was_asked(cards, parts, facts):
    """As many cards as TP × PP × workers, evenly on nodes that have them, and every wish is kept; or a refusal."""
    there = tuple(NodeGpus(f"n{n}", "NVIDIA-L20", 44.99, count, count) for n, count in enumerate(cards))
    plan = decide(a_spec(**parts), facts, Inventory(there))
    if not isinstance(plan, Plan):
        assert plan.sentence()
        return
    asked, engine, wish = parts["resources"].get("gpus"), parts["engine"], parts["deployment"]
    assert plan.gpus == (0 if asked == 0 else plan.tp * plan.pp * plan.workers)
    assert asked in (None, plan.gpus)
    assert plan.gpus % plan.nodes == 0
    if plan.gpus:
        assert sum(count >= plan.gpus_per_pod for count in cards) >= plan.nodes
        assert divides(facts, plan.tp)
        assert engine.get("tensorParallelSize", plan.tp) == plan.tp
        assert engine.get("pipelineParallelSize", plan.pp) == plan.pp
    assert engine.get("workers", 1) == plan.workers
    assert wish.get("nodes", plan.nodes) == plan.nodes
    assert {"Standard": plan.nodes == 1, "Distributed": plan.nodes > 1}.get(wish.get("mode", ""), True)
    assert (plan.group is None) == (plan.nodes == 1)


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 4), st.sampled_from([QWEN_7B, QWEN_72B]))
def test_more_nodes_never_lose_a_plan(cards, count, more, facts):
    """What could be placed can still be placed, on no more cards, when equal nodes join."""
    few, many = (decide(a_spec(), facts, Inventory(nodes(n, cards))) for n in (count, count + more))
    if isinstance(few, Plan):
        assert isinstance(many, Plan)
        assert many.gpus <= few.gpus
