"""`spec.engine.prefixOffload`: how much host memory it is, where it shows, and what does not fit."""

from __future__ import annotations

import dataclasses
import math

import pytest
from windlass_api.plan.args import server_args
from windlass_api.plan.model import Plan
from windlass_api.plan.prefix_offload import NO_EFFECT, OFF_ON_CPU, PART
from windlass_api.plan.quantity import gib

from .test_decide import L20, a_spec, planned, refused

SIXTEEN = {"prefixOffload": {"enabled": True, "memory": "16Gi"}}
SIZE = "--prefix-offload-mib"


def kept(plan: Plan) -> float:
    return dict(plan.host_parts).get(PART, 0.0)


def field(memory: str) -> dict[str, object]:
    return {"prefixOffload": {"enabled": True, "memory": memory}}


def test_a_size_is_a_part_of_the_pod_and_of_dev_shm():
    """Named in the plan, counted once in the pod's memory, and given to the server."""
    plain, plan = planned(), planned(engine=SIXTEEN)
    assert kept(plan) == 16
    assert gib(plan.memory) == gib(plain.memory) + 16
    assert gib(plan.shm) == gib(plain.shm) + 16
    assert f"{PART} 16.00 (in /dev/shm, by spec.engine.prefixOffload)" in plan.because[-1]
    flags = server_args(a_spec(engine=SIXTEEN), plan)
    at = flags.index("--enable-prefix-cache-offload")
    assert flags[at : at + 3] == ("--enable-prefix-cache-offload", SIZE, "16384")
    assert SIZE not in server_args(a_spec(), plain)


@pytest.mark.parametrize(("percent", "share"), [(None, 0.3), (50, 0.5)])
def test_a_share_is_of_the_pod_s_memory(percent, share):
    """The seed's 0.3 where neither is given; of what is asked for, where the spec says how much that is."""
    field = {"enabled": True, **({} if percent is None else {"memoryPercent": percent})}
    plan = planned(engine={"prefixOffload": field})
    whole = sum(size for _, size in plan.host_parts)
    assert share - 0.01 < kept(plan) / whole <= share  # /dev/shm is rounded up to a GiB
    asked = planned(engine={"prefixOffload": field}, resources={"memory": "100Gi"})
    assert kept(asked) == pytest.approx(100 * share)
    assert asked.memory == "100Gi"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"engine": {"prefixOffload": {"enabled": False, "memory": "16Gi"}}}, id="switched off"),
        pytest.param({"engine": SIXTEEN, "args": ["--enable-prefix-cache-offload=false"]}, id="off by a flag"),
        pytest.param({"engine": SIXTEEN, "command": ["vllm", "serve"]}, id="a command of the user's own"),
    ],
)
def test_nothing_is_planned_where_it_is_off(spec):
    """Neither memory nor a flag."""
    plan = planned(**spec)
    assert (kept(plan), plan.memory, plan.prefix_offload_mib) == (0, planned().memory, 0)


def test_a_size_by_a_flag_wins():
    """It is the flag that the server reads last, and the plan counts that size alone."""
    args = ["--enable-prefix-cache-offload", SIZE, "8192"]
    plan = planned(engine=SIXTEEN, args=args)
    assert dict(plan.host_parts)["KV cache offload"] == 8
    assert kept(plan) == 0
    assert planned(engine=SIXTEEN, args=["--enable-prefix-cache-offload"]).prefix_offload_mib == 16384


@pytest.mark.parametrize("size", [{"args": [SIZE, "8192"]}, {"env": [{"name": "PREFIX_OFFLOAD_MIB", "value": "8192"}]}])
def test_a_size_without_the_switch_wins_too(size):
    """The field is the switch then, and the server gets it once."""
    plan = planned(engine=SIXTEEN, **size)
    assert dict(plan.host_parts)["KV cache offload"] == 8
    assert kept(plan) == 0
    assert gib(plan.shm) == gib(planned().shm) + 8
    words = server_args(a_spec(engine=SIXTEEN, **size), plan)
    assert words.count("--enable-prefix-cache-offload") == 1
    assert "16384" not in words
    assert "--enable-prefix-cache-offload" not in server_args(a_spec(**size), planned(**size))


def test_a_mistyped_size_stays_a_quantity():
    """A node that says what it has refuses it; without one the pod waits for a node."""
    assert kept(planned(engine=field("100Ei"))) == 2**20


def test_a_field_without_values_changes_no_record():
    """The API server stores its place in every service, whose plan stays in force."""
    stored = a_spec(engine={"prefixOffload": {"enabled": False}})
    assert stored.model_dump(mode="json") == a_spec().model_dump(mode="json")
    assert "prefix_offload" in a_spec(engine=SIXTEEN).model_dump(mode="json")["engine"]


def test_the_size_is_of_all_engines_of_a_pod():
    """The server shares it out."""
    plan = planned(engine={**SIXTEEN, "workers": 2})
    assert (kept(plan), plan.prefix_offload_mib) == (16, 16384)


def test_the_cpu_engine_does_without():
    """One sentence says why, and the server says it too; no memory is asked for."""
    plan, plain = (planned(nodes=(), resources={"gpus": 0}, engine=engine) for engine in (SIXTEEN, {}))
    assert OFF_ON_CPU in plan.because
    assert (plan.memory, plan.shm, kept(plan)) == (plain.memory, plain.shm, 0)
    words = server_args(a_spec(engine=SIXTEEN, resources={"gpus": 0}), plan)
    assert "--enable-prefix-cache-offload" in words
    assert SIZE not in words


def test_another_size_changes_no_pod_on_the_cpu():
    """The same plan and the same command, so that nothing is replaced for it."""
    both = [
        (plan, server_args(a_spec(engine=engine, resources={"gpus": 0}), plan))
        for engine in (SIXTEEN, field("32Gi"))
        for plan in (planned(nodes=(), resources={"gpus": 0}, engine=engine),)
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("resources", "node_gib", "who"),
    [
        pytest.param({"memory": "30Gi"}, 0.0, "spec.resources.memory 30Gi", id="the pod"),
        pytest.param({"sharedMemory": "9Gi"}, 0.0, "spec.resources.sharedMemory 9Gi", id="the volume"),
        pytest.param({}, 31.5, "the largest node of this GPU, with 31.50 GiB,", id="the node"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_largest_that_would(resources, node_gib, who):
    """One sentence with both sizes; the size that it names is planned."""
    nodes = (dataclasses.replace(L20, node_gib=node_gib),)
    refusal = refused(nodes=nodes, engine=SIXTEEN, resources=resources)
    assert refusal.reason == "PrefixOffloadTooLarge"
    assert refusal.message.startswith(f"spec.engine.prefixOffload asks for 16.00 GiB of host memory, and {who} leaves ")
    largest = refusal.remedy.removeprefix("set spec.engine.prefixOffload.memory to ").removesuffix(" or less")
    plan = planned(nodes=nodes, engine=field(largest), resources=resources)
    assert kept(plan) == gib(largest)
    more = f"{math.floor(gib(largest)) + 1}Gi"
    assert refused(nodes=nodes, engine=field(more), resources=resources).reason == refusal.reason


def test_a_share_that_does_not_fit_gives_way_to_a_size():
    """Admission refuses both beside each other."""
    share = {"prefixOffload": {"enabled": True, "memoryPercent": 80}}
    refusal = refused(engine=share, resources={"memory": "32Gi"})
    assert refusal.reason == "PrefixOffloadTooLarge"
    assert refusal.remedy.endswith("Gi or less in the place of memoryPercent")


def test_the_remedy_for_a_pod_without_room_is_to_leave_it_out():
    """There is no largest size then; nor is there a smallest one for a size of nothing."""
    refusal = refused(engine=SIXTEEN, resources={"memory": "8Gi"})
    assert refusal.remedy.startswith("leave spec.engine.prefixOffload out")
    assert refused(engine=field("1Ki")).remedy == "set it to 1Gi or more"


@pytest.mark.parametrize("gpus", [1, 0])
def test_a_command_of_the_user_s_own_has_no_effect_of_it_and_the_plan_says_so(gpus):
    """Its server gets no flag; a flag of its own without a size is refused as if the field were not there."""
    own = {"engine": SIXTEEN, "command": ["vllm", "serve"], "resources": {"gpus": gpus}}
    assert NO_EFFECT in planned(**own).because
    assert NO_EFFECT not in planned(engine=SIXTEEN, resources={"gpus": gpus}).because
    if gpus:
        assert refused(**own, args=["--enable-prefix-cache-offload"]).reason == "PrefixOffloadWithoutSize"
