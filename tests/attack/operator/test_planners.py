"""A plan that never ends, or takes all memory, costs its own namespace a while, and nobody else anything."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

import pytest
from windlass_api.plan.model import Inventory, NodeGpus, Plan, Refusal
from windlass_operator.errors import UserError
from windlass_operator.planner.pool import Planners
from windlass_operator.planner.process import Question
from windlass_sizing.model.facts import from_config
from windlass_testbed.waiting import HANG_S

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 256,
}  # fmt: skip
FACTS = from_config(LLAMA).to_dict()
NODES = Inventory((NodeGpus("n", "NVIDIA-L20", 45.0, 8, 8, {"a": "b"}),))
SPEC = {"model": {"id": "m", "source": {"nfs": {"server": "10.0.0.12", "path": "/m"}}}}
# The real planner, whose `decide` meets what a model's name asks for: a loop or an allocation of a new kind.
HOSTILE = """
import sys
from windlass_operator.planner import process as planner
decide = planner.decide
def hostile(spec, facts, inventory, keep=None):
    while spec.model.id == "loop":
        pass
    if spec.model.id == "eat":
        return [bytes(2**20) for _ in range(10**6)]
    if spec.model.id == "end":
        sys.exit(3)
    return decide(spec, facts, inventory, keep=keep)
planner.decide = hostile
planner._limit_memory()
planner.main(sys.stdin.buffer, sys.stdout.buffer)
"""
PLAN_S = 2.0
GOOD_PLANS = 10


def question(model: str = "m", **facts: object) -> Question:
    return Question({"model": {**SPEC["model"], "id": model}}, {**FACTS, **facts}, NODES)


@pytest.fixture
async def planners():
    async with aclosing(Planners((sys.executable, "-c", HOSTILE), plan_s=10 * HANG_S)) as found:
        yield found


async def test_the_real_planner_plans_and_refuses():
    """As the operator starts it."""
    async with aclosing(Planners()) as real:
        plan = await real.decide("a", question())
        assert isinstance(plan, Plan)
        assert (plan.gpus, plan.gpu_type) == (1, "L20")
        refused = await real.decide("a", Question(SPEC, FACTS, Inventory()))
        assert isinstance(refused, Refusal)
        with pytest.raises(UserError, match="num_attention_heads"):
            await real.decide("a", question(num_attention_heads=1_000_000_000_039))


@pytest.mark.parametrize(("label", "is_planned"), [("b", True), ("c", False)])
async def test_labels_of_nodes_reach_the_real_planner(label: str, is_planned: bool):
    """A selector and a required affinity are judged by all labels that a node has."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": [label]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    specs = {"scheduling": {"nodeSelector": {"a": label}}}, {"podTemplate": {"spec": {"affinity": affinity}}}
    async with aclosing(Planners()) as real:
        found = [await real.decide("a", Question({**SPEC, **more}, FACTS, NODES)) for more in specs]
    assert [isinstance(one, Plan) for one in found] == [is_planned] * len(specs)
    assert is_planned or [one.reason for one in found] == ["NoMatchingNode"] * len(specs)


async def test_a_plan_without_end_keeps_nobody_waiting(planners):
    """Three of one namespace never end, while another plans as ever."""
    await asyncio.gather(*(planners.decide(name, question()) for name in ("good", "bad")))  # both processes are up
    bad = [asyncio.create_task(planners.decide("bad", question("loop", params=7 + n))) for n in range(3)]
    for _ in range(GOOD_PLANS):
        assert isinstance(await asyncio.wait_for(planners.decide("good", question()), HANG_S), Plan)
    assert not any(one.done() for one in bad)
    for one in bad:
        one.cancel()
    await asyncio.gather(*bad, return_exceptions=True)


async def test_a_plan_without_end_has_a_reason(planners):
    """Asked again, the answer comes at once."""
    planners.plan_s = PLAN_S
    bad = (planners.decide("bad", question("loop", params=7 + n)) for n in range(3))
    refusals = await asyncio.gather(*bad, return_exceptions=True)
    planners.plan_s = 10 * HANG_S
    assert [getattr(one, "reason", one) for one in refusals] == ["PlanOverdue"] * 3
    with pytest.raises(UserError, match="a while ago"):
        await planners.decide("bad", question("loop", params=7))
    assert isinstance(await planners.decide("bad", question()), Plan)


@pytest.mark.parametrize(("model", "reason"), [("eat", "InternalError"), ("end", "PlanOverdue")])
async def test_a_planner_that_eats_or_ends_costs_one_question(planners, model, reason):
    """Its memory is its own; the next question is answered."""
    with pytest.raises(UserError) as told:
        await planners.decide("bad", question(model))
    assert told.value.reason == reason
    assert isinstance(await planners.decide("bad", question()), Plan)
