"""The host memory of a pod, part by part: what each flag adds, and that the pod asks for the sum."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from windlass_api.crd.status import PlanStatus
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.host import Host, Load, Part, host_for, total_gib
from windlass_api.plan.offload import ASKED_MAX_GIB, Running, kv_offload_gib
from windlass_api.plan.quantity import gib
from windlass_api.plan.start import start_of
from windlass_operator.manifests.pod import pod_template
from windlass_operator.reconcile.desired_state import pod_shape
from windlass_operator.settings import Settings

from .test_decide import L20, QWEN_7B, QWEN_72B, SINGLE_STRATEGY, a_spec, planned, refused
from .test_spread import PAIRS

FEW = Running(4, 8192)
ONE_CARD = Load(weights_gib=14.0, video_gib=18.0, gpus=1, running=FEW)
FOUR_CARDS = Load(weights_gib=136.0, video_gib=160.0, gpus=4, running=FEW)
ON_CPU = Load(weights_gib=2.0, cache_gib=1.0, activations_gib=0.5, running=FEW)
LOOKAHEAD = {"lookahead": {"enabled": True}}
SIXTY_FOUR = ["--kv-offloading-size", "64"]


def host(load: Load = ONE_CARD, **spec: object) -> Host:
    service = a_spec(**spec)
    return host_for(start_of(service), load)


def gibs(found: Host) -> dict[str, float]:
    return {part.name: part.gib for part in found.parts}


def connector(**extra: object) -> list[str]:
    return ["--kv-transfer-config", json.dumps({"kv_connector": "OffloadingConnector", **extra})]


def test_a_plain_service_has_the_parts_that_every_one_has():
    """Weights, what the video memory in use is beyond them, a tenth of both, two processes, shared memory."""
    found = host()
    assert gibs(found) == pytest.approx(
        {"weights": 14, "video memory in use": 4, "headroom": 1.8, "engine": 2, "shared memory": 1}
    )
    assert (found.cpu, found.memory, found.shm) == ("1", "23Gi", "1Gi")


def test_the_cpu_engine_holds_its_cache_in_host_memory():
    """There is no video memory beyond the weights then."""
    assert gibs(host(ON_CPU)) == pytest.approx(
        {"weights": 2, "KV cache": 1, "activations": 0.5, "headroom": 0.35, "engine": 2, "shared memory": 1}
    )


@pytest.mark.parametrize(
    ("load", "processes"),
    [
        pytest.param(ONE_CARD, 2, id="API and core"),
        pytest.param(FOUR_CARDS, 6, id="four ranks beside them"),
        pytest.param(dataclasses.replace(FOUR_CARDS, engines=2), 8, id="two engines of two ranks"),
        pytest.param(dataclasses.replace(FOUR_CARDS, engines=4), 6, id="four engines of one rank"),
        pytest.param(dataclasses.replace(ON_CPU, engines=3), 5, id="three engines on the CPU"),
    ],
)
def test_every_process_of_an_engine_counts(load, processes):
    """One API, a core for each engine, a coordinator of several; on several GPUs each rank is a process."""
    assert gibs(host(load))["engine"] == processes


@pytest.mark.parametrize(
    ("spec", "kv_gib"),
    [
        pytest.param({"args": SIXTY_FOUR}, 64, id="the size"),
        pytest.param({"args": ["--kv_offloading_size=6.5"]}, 6.5, id="with underscores and an equals sign"),
        pytest.param({"args": [*SIXTY_FOUR, "--kv-offloading-size", "8"]}, 8, id="the last one wins"),
        pytest.param({"command": ["run", *SIXTY_FOUR]}, 64, id="in the command"),
        pytest.param({"command": ["vllm", "serve", *SIXTY_FOUR]}, 64, id="of the engine's own command"),
        pytest.param({"args": connector(kv_connector_extra_config={"cpu_bytes_to_use": 2**36})}, 64, id="a connector"),
        pytest.param(
            {"args": connector(kv_connector_extra_config={"connectors": [{"x": {"cpu_bytes_to_use": "1073741824"}}]})},
            1, id="a connector within another"),
        pytest.param({"args": [*SIXTY_FOUR, *connector(kv_connector_extra_config={"cpu_bytes_to_use": 2**30})]}, 64,
                     id="the size goes before the connector's"),
        pytest.param({"args": [*SIXTY_FOUR, "--kv-offloading-backend", "lmcache"]}, 0, id="a server of its own has it"),
        pytest.param({"args": ["--enable-prefix-cache-offload", "--prefix-offload-mib", "8192"]}, 8, id="ours"),
        pytest.param({"args": ["--enable-prefix-cache-offload=0", "--prefix-offload-mib=8"]}, 0, id="off"),
        pytest.param({"args": ["--kv-offloading-size", "much"]}, 0, id="no figure"),
        pytest.param({"args": ["--kv-offloading-size", "nan"]}, 0, id="not a number"),
        pytest.param({"args": ["--kv-offloading-size", "1e300"]}, ASKED_MAX_GIB, id="more than there is"),
        pytest.param({"args": ["--kv-transfer-config", "[" * 9000]}, 0, id="no JSON"),
        pytest.param({"args": connector(x=json.loads("[" * 400 + "]" * 400))}, 0, id="deep JSON"),
        pytest.param({"args": ["--kv-offloading-size"]}, 0, id="no value"),
        pytest.param({"args": SIXTY_FOUR, "image": {"family": "deepspeed"}}, 0, id="DeepSpeed has no such flag"),
    ],
)  # fmt: skip
def test_the_prefix_cache_in_host_memory_is_asked_for(spec, kv_gib):
    """It lies in /dev/shm, so the volume grows by it; the pod's memory holds it once."""
    plain, found = host(), host(**spec)
    service = a_spec(**spec)
    assert kv_offload_gib(start_of(service)) == kv_gib
    assert gibs(found).get("KV cache offload", 0) == kv_gib
    assert gib(found.shm) == gib(plain.shm) + math.ceil(kv_gib)
    assert gib(plain.memory) + kv_gib <= gib(found.memory) <= gib(plain.memory) + kv_gib + 1


@pytest.mark.parametrize(
    ("load", "spec", "gib_of_images"),
    [
        pytest.param(ONE_CARD, {"args": ["--mm-processor-cache-gb", "6"]}, 12, id="the API and one engine"),
        pytest.param(dataclasses.replace(ON_CPU, engines=2), {"args": ["--mm-processor-cache-gb=6"]}, 18, id="two"),
        pytest.param(ONE_CARD, {}, 0, id="not said"),
        pytest.param(ONE_CARD, {"args": ["--mm-processor-cache-gb", "0"]}, 0, id="switched off"),
        pytest.param(ONE_CARD, {"args": ["--mm-processor-cache-gb", "6"], "image": {"family": "deepspeed"}}, 0,
                     id="DeepSpeed has no such flag"),
    ],
)  # fmt: skip
def test_processed_images_are_counted_where_a_flag_sizes_them(load, spec, gib_of_images):
    assert gibs(host(load, **spec)).get("processor cache", 0) == gib_of_images


def test_the_parts_are_data_in_the_status():
    """Names and GiB as text, whose sum is what the pod asks for; on GPUs and on the CPU."""
    for plan in (planned(), planned(nodes=(), resources={"gpus": 0})):
        parts = plan.to_status()["hostMemory"]
        assert parts[0]["name"] == "weights"
        assert math.ceil(sum(float(part["gib"]) for part in parts) - 0.05) == gib(plan.memory)
        PlanStatus.model_validate(plan.to_status())


def test_every_engine_has_a_prefix_cache_of_its_own():
    """The flag's size is of one engine, whose ranks share it."""
    four = host(FOUR_CARDS, args=SIXTY_FOUR)
    assert (gibs(four)["KV cache offload"], four.shm) == (64, "69Gi")
    pairs = host(dataclasses.replace(FOUR_CARDS, engines=2), args=SIXTY_FOUR)
    assert (gibs(pairs)["KV cache offload"], pairs.shm) == (128, "133Gi")


def test_shared_memory_that_does_not_hold_the_cache_is_refused():
    """The engine would end at its start; a size that holds it is kept, and the cache is counted once."""
    refusal = refused(args=SIXTY_FOUR, resources={"sharedMemory": "64Gi"})
    assert refusal.reason == "SharedMemoryTooSmall"
    assert refusal.sentence() == (
        "spec.resources.sharedMemory 64Gi does not hold the 64 GiB of KV cache offloaded to /dev/shm; "
        "leave spec.resources.sharedMemory out, or set it to 65Gi or more"
    )
    kept = planned(args=SIXTY_FOUR, resources={"sharedMemory": "65Gi"})
    assert (kept.shm, kept.memory) == ("65Gi", planned(args=SIXTY_FOUR).memory)
    two = {"args": SIXTY_FOUR, "engine": {"workers": 2}}
    assert refused(resources={"sharedMemory": "100Gi"}, **two).remedy.endswith("set it to 129Gi or more")
    assert planned(resources={"sharedMemory": "1Gi"}).shm == "1Gi"


@pytest.mark.parametrize(
    ("load", "args", "kept_gib"),
    [
        pytest.param(ONE_CARD, ["--cpu-offload-gb", "5"], 5, id="of one GPU"),
        pytest.param(FOUR_CARDS, ["--cpu-offload-gb", "5"], 20, id="of each GPU"),
        pytest.param(ONE_CARD, ["--cpu-offload-gb", "500"], 14, id="all weights at most"),
        pytest.param(ONE_CARD, ["--offload-group-size", "4"], 3.5, id="one layer of four"),
        pytest.param(ONE_CARD, ["--offload-group-size", "4", "--offload-num-in-group", "2"], 7, id="two of four"),
        pytest.param(ON_CPU, ["--cpu-offload-gb", "1"], 0, id="they are there already"),
    ],
)
def test_weights_that_stay_in_host_memory_are_counted(load, args, kept_gib):
    """Beside the page cache that they are read into."""
    assert gibs(host(load, args=args)).get("weights offload", 0) == kept_gib


@pytest.mark.parametrize(
    ("spec", "is_on"),
    [
        pytest.param({"engine": LOOKAHEAD}, True, id="the field"),
        pytest.param({"args": ["--use-lookahead"]}, True, id="the flag"),
        pytest.param({"args": ["--use_lookahead=true"]}, True, id="the flag with a value"),
        pytest.param({"engine": LOOKAHEAD, "args": ["--use-lookahead", "false"]}, False, id="the flag wins"),
        pytest.param({"env": [{"name": "USE_LOOKAHEAD", "value": "1"}]}, True, id="the variable"),
        pytest.param(
            {"engine": LOOKAHEAD, "env": [{"name": "USE_LOOKAHEAD", "value": "0"}]}, True, id="the field is a flag"
        ),
        pytest.param({"args": ["--lookahead-cache-config-dir", "/c"]}, True, id="a directory"),
        pytest.param({"args": ["--use-lookahead=0", "--lookahead-cache-config-dir", "/c"]}, False, id="and the switch"),
        pytest.param({}, False, id="left out"),
    ],
)
def test_the_lookahead_cache_is_counted_where_it_is_on(spec, is_on):
    """A table for each engine, and an index for each running request."""
    assert ("lookahead" in gibs(host(**spec))) is is_on


def test_lookahead_grows_with_engines_and_with_what_they_serve():
    """Of the requests that the KV cache holds, at most those of one step."""
    one = gibs(host(engine=LOOKAHEAD))["lookahead"]
    two = gibs(host(dataclasses.replace(FOUR_CARDS, engines=2), engine=LOOKAHEAD))["lookahead"]
    assert two == 2 * one
    more = dataclasses.replace(ONE_CARD, running=Running(256, 8192))
    assert gibs(host(more, engine=LOOKAHEAD))["lookahead"] == pytest.approx(0.9, abs=0.1)


def test_the_sentence_names_every_part_with_its_figure():
    """It is built from the parts; what the spec says goes before them, and is compared with them."""
    assert host(args=SIXTY_FOUR).because == (
        "host memory 87Gi: weights 14.00 (read ahead into the page cache) + video memory in use 4.00 (beyond the "
        "weights) + headroom 1.80 (10% of these) + engine 2.00 (2 processes) + shared memory 1.00 (the volume "
        "at /dev/shm) + KV cache offload 64.00 (in /dev/shm, by the flags of the spec) GiB"
    )
    assert "weights 14.00 (while the engine loads them)" in host(engine={"memoryCache": False}).because
    assert host(resources={"memory": "23Gi"}).because == "host memory 23Gi by spec.resources.memory"
    less = host(resources={"memory": "9Gi"})
    assert less.memory == "9Gi"
    assert less.because.startswith(
        "host memory 9Gi by spec.resources.memory, less than the planned 23Gi: weights 14.00 ("
    )


@pytest.mark.parametrize(
    ("node", "memory"),
    [
        pytest.param(L20, "24Gi", id="a node that does not say what it has"),
        pytest.param(dataclasses.replace(L20, host_gib=89.9), "24Gi", id="less than twice the card"),
        pytest.param(dataclasses.replace(L20, host_gib=90.0), "48Gi", id="twice the card"),
        pytest.param(dataclasses.replace(SINGLE_STRATEGY, host_gib=500.0), "24Gi", id="a slice"),
    ],
)
def test_a_node_with_memory_to_spare_gives_more_than_the_engine_takes_of_the_card(node, memory):
    """Twice the card's memory for each card: pods on all cards then still fit the node."""
    plan = planned(nodes=(node,))
    assert plan.memory == memory
    (sentence,) = [line for line in plan.because if line.startswith("host memory ")]
    assert ("of what the engine takes of its GPUs" in sentence) is (memory == "48Gi")
    taken_gib = node.memory_gib * plan.gpu_memory_utilization_percent / 100
    assert (gib(memory) > taken_gib) is (memory == "48Gi")


def test_the_least_node_with_the_card_decides_on_its_host_memory():
    """A pod may land on any of them; over nodes each pod has its own share."""
    rich, poor = dataclasses.replace(L20, host_gib=200.0), dataclasses.replace(L20, node="worker-9", host_gib=50.0)
    assert planned(nodes=(rich, poor)).memory == planned(nodes=(poor,)).memory == "24Gi"
    pairs = tuple(dataclasses.replace(node, host_gib=200.0) for node in PAIRS)
    assert planned(QWEN_72B, pairs).memory == "98Gi"  # of 2 × 41.4 GiB that the plan needs, 2 × 40.5 that it takes


def test_the_sum_is_rounded_up_once():
    """Shares that make a whole number stay one."""
    assert total_gib(tuple(Part("x", 0.1, "") for _ in range(10))) == 1
    assert total_gib((Part("x", 1.2, ""), Part("y", 1.2, ""))) == 3


SETTINGS = Settings(server_image="s", server_version="1", operator_image="o")
CASES = {
    "plain": (QWEN_7B, {}),
    "on the CPU": (QWEN_7B, {"resources": {"gpus": 0}}),
    "offloaded": (QWEN_7B, {"args": [*SIXTY_FOUR, "--cpu-offload-gb", "4"], "engine": LOOKAHEAD}),
    "over nodes": (QWEN_72B, {}),
    "own shared memory": (QWEN_7B, {"resources": {"sharedMemory": "9Gi"}}),
}


@pytest.mark.parametrize(("facts", "spec"), CASES.values(), ids=CASES)
def test_the_pod_asks_for_the_sum_of_the_parts(facts, spec):
    """`requests.memory` is the sum that the plan says, and holds the memory-backed volume at /dev/shm."""
    plan = planned(facts, PAIRS, **spec)
    meta = {"name": "qwen", "namespace": "a", "uid": "u"}
    service = LLMService.model_validate(
        {"metadata": meta, "spec": a_spec(**spec).model_dump(by_alias=True, exclude_none=True)}
    )
    pod = pod_template(service, pod_shape(service, plan, SETTINGS))["spec"]
    (sentence,) = [line for line in plan.because if line.startswith("host memory ")]
    listed = (part.split(" (")[0].rsplit(" ", 1) for part in sentence.split(": ")[1].split(" + "))
    named = {name: float(figure) for name, figure in listed}
    asked = pod["containers"][0]["resources"]["requests"]["memory"]
    volume = next(one["emptyDir"] for one in pod["volumes"] if one["name"] == "shm")
    assert f"host memory {asked}: " in sentence
    assert gib(asked) - 1.1 < sum(named.values()) <= gib(asked) + 0.1  # two digits of each figure
    assert gib(volume["sizeLimit"]) == named["shared memory"] + named.get("KV cache offload", 0)


@pytest.mark.parametrize("size", [[], ["--prefix-offload-mib", "0"]])
def test_prefixes_in_host_memory_need_a_size(size):
    """The flag's share is of the pod's memory, which the plan makes from the sizes."""
    refusal = refused(args=["--enable-prefix-cache-offload", *size])
    assert refusal.reason == "PrefixOffloadWithoutSize"
    assert "--prefix-offload-mib" in refusal.remedy
