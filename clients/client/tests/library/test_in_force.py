"""A preview says what the operator would do: it keeps a plan that nothing speaks against."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest
from windlass_api.crd.v1alpha1 import LLMService, LLMServiceSpec
from windlass_api.objects.reading import annotation_of
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_api.plan.record import PLAN_ANNOTATION, PlanRecord, inputs_digest, recorded_plan
from windlass_client import in_force
from windlass_client.in_force import InForce
from windlass_client.preview import decided, read_inventory
from windlass_kubectl.plan import free_gpus
from windlass_sizing.model.facts import from_config

from .mock_api import MockApi, a_list

QWEN_7B = from_config(
    {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }
)
L20 = NodeGpus("worker-1", "NVIDIA-L20", 44.99, 8, 8)
A10 = NodeGpus("worker-2", "NVIDIA-A10", 22.49, 4, 4)
BEFORE, LATER = Inventory((L20,)), Inventory((L20, A10))


def a_spec(**parts: object) -> LLMServiceSpec:
    return LLMServiceSpec.model_validate({"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, **parts})


def record_of(spec: LLMServiceSpec, gpus: Inventory = BEFORE) -> PlanRecord:
    plan = decide(spec, QWEN_7B, gpus)
    assert isinstance(plan, Plan)
    return PlanRecord(inputs_digest(LLMService(spec=spec), QWEN_7B), plan, "Surge", "pods")


def seen(spec: LLMServiceSpec, gpus: Inventory, now: InForce) -> tuple[bool, str | None]:
    preview = decided(spec, QWEN_7B, gpus, now)
    return preview.in_force, preview.plan.gpu_type if preview.plan else None


def test_a_cheaper_card_that_came_later_moves_nothing():
    """A new service would take it."""
    spec = a_spec()
    assert seen(spec, LATER, InForce()) == (False, "A10")
    assert seen(spec, LATER, InForce(record_of(spec))) == (True, "L20")
    assert decided(spec, QWEN_7B, LATER, InForce(record_of(spec))).to_dict()["inForce"] is True


def test_a_change_of_what_was_planned_from_is_a_new_plan():
    """The number of replicas is none of that."""
    now = InForce(record_of(a_spec()))
    assert seen(a_spec(engine={"maxModelLen": 4096}), LATER, now) == (False, "A10")
    assert seen(a_spec(replicas=4), LATER, now) == (True, "L20")


def test_a_pod_without_a_node_keeps_its_placement_while_that_is_there():
    """The kind of card may be gone for good: then there is a new plan, or the pods' own words."""
    spec = a_spec()
    now = InForce(record_of(spec), unplaced=True)
    assert seen(spec, LATER, now)[1] == "L20"
    assert seen(spec, Inventory((A10,)), now) == (False, "A10")
    assert seen(spec, Inventory(()), now) == (True, "L20")


def a_front(record: PlanRecord) -> dict:
    return {"metadata": {"name": "qwen", "annotations": {PLAN_ANNOTATION: record.to_text()}}}


def a_pod(reason: str) -> dict:
    rows = [{"type": "PodScheduled", "status": "False", "reason": reason}]
    return {"metadata": {"name": "qwen-1"}, "status": {"conditions": rows}}


async def read(service: httpx2.Response, *pods: dict) -> InForce:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return a_list(1, *pods) if request.url.path.endswith("/pods") else service

    async with MockApi().client(answer) as client:
        return await in_force.read(client.api, "team", "qwen")


async def test_the_plan_is_read_from_the_services_own_object():
    """With whether a pod of it finds no node."""
    record = record_of(a_spec())
    front = httpx2.Response(200, json=a_front(record))
    assert await read(front) == InForce(record, unplaced=False)
    assert await read(front, a_pod("Unschedulable")) == InForce(record, unplaced=True)
    assert await read(front, a_pod("SchedulingGated")) == InForce(record, unplaced=False)


@pytest.mark.parametrize("code", [403, 404])
async def test_without_the_object_or_the_right_nothing_is_in_force(code):
    """A preview of a new service, or for somebody who may read little."""
    assert await read(httpx2.Response(code, json={"kind": "Status", "code": code, "message": "no"})) == InForce()


def test_a_record_of_an_older_operator_stays_in_force():
    """A record without the resource means nvidia.com/gpu; one with the default is written as it was then."""
    record = record_of(a_spec())
    assert '"resource"' not in record.to_text()
    assert recorded_plan(annotation_of(a_front(record), PLAN_ANNOTATION)) == record
    sliced = replace(record, plan=replace(record.plan, resource="nvidia.com/mig-1g.10gb"))
    assert recorded_plan(annotation_of(a_front(sliced), PLAN_ANNOTATION)) == sliced


FREE = {
    "all pods": (200, 7, ", 7 free for this service"),
    "no right": (403, None, ", free unknown: you may not list pods"),
}


@pytest.mark.parametrize(("code", "free", "words"), FREE.values(), ids=FREE.keys())
async def test_free_gpus_are_counted_or_unknown(code, free, words):
    """GPUs that other services hold are taken; without the right to list pods the number is unknown."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-L20"}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [ready]}
    node = {"metadata": {"name": "n", "labels": labels}, "status": status}
    bound = {"nodeName": "n", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    pod = {"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "spec": bound}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/nodes"):
            return a_list(1, node)
        refused = httpx2.Response(403, json={"kind": "Status", "reason": "Forbidden", "code": 403, "message": "no"})
        return a_list(1, pod) if code == httpx2.codes.OK else refused

    async with MockApi().client(answer) as client:
        gpus = await read_inventory(client.api, "team", "qwen")
    preview = decided(a_spec(), QWEN_7B, gpus)
    assert [one["free"] for one in preview.to_dict()["gpus"]] == [free]
    assert free_gpus(preview.inventory.nodes[0], preview.inventory) == words
