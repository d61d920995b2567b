"""One reconcile after the other against a cluster of dicts: retries, stickiness, and what broken objects do."""

from __future__ import annotations

import json
import re

import httpx2
import pytest
from windlass_api.names import RESULT_ANNOTATION
from windlass_operator.cluster.decode import stub
from windlass_operator.cluster.events import record
from windlass_operator.cluster.rest import StatusError
from windlass_operator.reconcile.reconciler import Reconciler
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.settings import Settings
from windlass_operator.status import conditions as c
from windlass_operator.status.notes import Note
from windlass_sizing.model.facts import from_config

from .fake_cluster import FakeCluster

KEY = Key("team-a", "qwen")
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip
GOOD = json.dumps({"ok": True, "facts": from_config(CONFIG, weights_bytes=988_097_824).to_dict()})
BAD = json.dumps({"ok": False, "reason": "PathNotFound", "message": "nope is not in PVC models"})


def a_service(**spec_fields):
    model = {"id": "m", "source": {"pvc": {"claimName": "models", "path": "qwen"}}}
    meta = {"name": "qwen", "namespace": "team-a", "uid": "u-1", "generation": 1}
    fields = {
        "model": model,
        "replicas": 1,
        "license": {"required": False},
        "engine": {"maxModelLen": 2048},
        **spec_fields,
    }
    return {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "metadata": meta, "spec": fields}


def a_node(name="n1", product="NVIDIA-L20", memory="46068", gpus="2"):
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
    status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


class World:
    """The fake cluster, the reconciler, and a clock that the test moves."""

    def __init__(self, http):
        self.cluster = FakeCluster()
        self.minute = 0
        self.http = http
        self.reconciler = self.another_operator()

    def another_operator(self, **settings):
        settings = Settings("windlass/server", "1.2", "windlass/operator:1.2", **settings)
        return Reconciler(self.cluster, self.http, settings, clock=lambda: self.now)

    @property
    def now(self):
        return f"2026-01-01T{self.minute // 60:02}:{self.minute % 60:02}:00Z"

    async def look(self):
        """One reconcile; returns when it wants the next one."""
        self.cluster.writes.clear()
        return await self.reconciler.reconcile(KEY)

    def put_service(self, **fields):
        old = self.cluster.one("LLMService", "qwen") or {}
        new = a_service(**fields)
        if old:
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
            new["status"] = old.get("status", {})
        self.cluster.put("LLMService", new)

    def end_job(self, message):
        """Play Job controller and kubelet."""
        (job,) = self.cluster.all("Job")
        meta = {
            "name": f"pod-{self.minute}", "uid": f"pod-{self.minute}",
            "labels": job["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [{"uid": job["metadata"]["uid"], "controller": True}],
        }  # fmt: skip
        ended = {"exitCode": 0, "message": message, "finishedAt": self.now}
        rows = [{"name": "inspect", "state": {"terminated": ended}}]
        self.cluster.put("Pod", {"metadata": meta, "status": {"phase": "Succeeded", "containerStatuses": rows}})

    def serve(self):
        """Play Deployment controller and kubelet."""
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        self.cluster.one("Deployment", "qwen")["status"] = {"observedGeneration": 1, **counts}

    def ready(self):
        return c.find(self.cluster.one("LLMService", "qwen")["status"]["conditions"], "Ready")

    def args(self):
        return self.cluster.one("Deployment", "qwen")["spec"]["template"]["spec"]["containers"][0]["args"]

    async def planned(self, **fields):
        self.put_service(**fields)
        await self.look()
        self.end_job(GOOD)
        await self.look()
        await self.look()


@pytest.fixture
async def world():
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))) as http:
        yield World(http)


async def test_a_settled_look_writes_nothing(world):
    world.cluster.put("Node", a_node())
    await world.planned()
    await world.look()
    assert world.cluster.writes == []


async def test_the_writes_of_one_service_s_life(world):
    """From nothing to Running: four objects, a status for each word of STATUS, two Events that tell all of it."""
    world.cluster.put("Node", a_node())
    world.put_service()
    await world.look()
    writes = list(world.cluster.writes)
    world.end_job(GOOD)
    await world.look()
    writes += world.cluster.writes
    world.serve()
    await world.look()
    writes += world.cluster.writes
    assert [re.sub(r"/qwen.*", "", write) for write in writes] == [
        *("apply Job", "status"),
        *("apply Service", "apply Deployment", "apply PodDisruptionBudget", "status", "apply Event"),
        *("status", "apply Event"),
    ]
    assert [event["reason"] for event in world.cluster.all("Event")] == ["Planned", "Running"]
    assert re.fullmatch(
        r"ModelFound: Qwen2ForCausalLM, .* in pvc/models; 1 × L20, .*; Starting: 0 of 1 replicas answer; .*",
        world.cluster.all("Event")[0]["message"],
    )
    await world.look()
    assert world.cluster.writes == []


async def test_the_finding_outlives_pod_and_operator(world):
    """The Service keeps it; the Job that it is of is named there."""
    world.cluster.put("Node", a_node())
    await world.planned()
    world.cluster.objects = {key: obj for key, obj in world.cluster.objects.items() if key[0] != "Pod"}
    (job,) = world.cluster.all("Job")
    job["status"] = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": world.now}]}
    world.reconciler = world.another_operator()
    await world.look()
    assert world.cluster.writes == []
    assert world.ready()["reason"] == "Starting"


@pytest.mark.parametrize("end", ["Complete", "Suspended"])
async def test_a_finding_that_is_lost_is_looked_for_again_at_once(world, end):
    """The Service was deleted, and the pod is gone: what serves stays, and the Service comes back."""
    world.cluster.put("Node", a_node())
    await world.planned()
    (job,) = world.cluster.all("Job")
    row = {"type": end, "status": "True", "lastTransitionTime": world.now}
    job["status"] = {"startTime": world.now, "conditions": [row]}
    world.cluster.objects = {key: obj for key, obj in world.cluster.objects.items() if key[0] not in ("Pod", "Service")}
    before = world.cluster.one("Deployment", "qwen")
    world.minute = 5
    assert await world.look() == 1.0
    assert world.cluster.all("Job") == []
    await world.look()
    world.end_job(GOOD)
    await world.look()
    assert world.cluster.one("Deployment", "qwen") == before
    assert RESULT_ANNOTATION in world.cluster.one("Service", "qwen")["metadata"]["annotations"]


async def test_the_finding_of_a_job_that_was_made_anew_is_its_own(world):
    """Whoever deletes the Job has the directory looked at again."""
    world.cluster.put("Node", a_node())
    await world.planned()
    (job,) = world.cluster.all("Job")
    job["metadata"]["uid"] = "another"
    world.end_job(BAD)
    await world.look()
    conditions = world.cluster.one("LLMService", "qwen")["status"]["conditions"]
    assert c.find(conditions, "ModelReady")["reason"] == "PathNotFound"


async def test_the_finding_of_an_earlier_operator_stays_on_its_job(world):
    """A newer operator moves nothing: no write at its start."""
    world.cluster.put("Node", a_node())
    world.put_service()
    await world.look()
    world.end_job(GOOD)
    del world.cluster.objects["Node", "n1"]
    await world.look()
    (job,) = world.cluster.all("Job")
    assert json.loads(job["metadata"]["annotations"][RESULT_ANNOTATION]) == json.loads(GOOD), "no plan, so no Service"
    world.cluster.put("Node", a_node())
    await world.look()
    assert f"apply Job/{job['metadata']['name']}" not in world.cluster.writes
    assert RESULT_ANNOTATION not in world.cluster.one("Service", "qwen")["metadata"]["annotations"]


async def test_a_refused_change_writes_the_finding_nowhere_anew(world):
    """The Service of the plan in force has it."""
    world.cluster.put("Node", a_node())
    await world.planned()
    world.put_service(resources={"gpuType": "H100"})
    await world.look()
    assert [write for write in world.cluster.writes if "Event" not in write] == ["status"]


async def test_a_failed_inspection_is_looked_at_again_after_its_wait(world):
    """The Job stays for a minute, is then deleted and made anew, and a model that came meanwhile is found."""
    world.cluster.put("Node", a_node())
    world.put_service()
    await world.look()
    world.end_job(BAD)
    assert await world.look() == 60
    assert world.ready()["reason"] == "PathNotFound"
    world.minute = 1
    assert await world.look() == 1.0
    assert [write.split("-")[0] for write in world.cluster.writes] == ["delete Job/qwen"]
    await world.look()
    assert [write.split("-")[0] for write in world.cluster.writes] == ["apply Job/qwen"]
    assert world.ready()["reason"] == "PathNotFound"
    world.end_job(GOOD)
    await world.look()
    assert world.ready()["reason"] == "Starting"


async def test_the_plan_stays_when_better_nodes_join(world):
    """What nodes come and go never moves a running service; a changed wish does."""
    world.cluster.put("Node", a_node("n1", "NVIDIA-L20", "46068"))
    await world.planned()
    before = world.cluster.one("Deployment", "qwen")
    world.cluster.put("Node", a_node("n2", "Tesla-T4", "15360"))
    await world.look()
    assert world.cluster.one("Deployment", "qwen") == before
    world.put_service(resources={"gpuType": "T4"})
    await world.look()
    selector = world.cluster.one("Deployment", "qwen")["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"nvidia.com/gpu.product": "Tesla-T4"}


async def test_a_plan_whose_gpus_are_gone_is_made_anew(world):
    """A pod that finds no node makes the operator look again, and only then."""
    world.cluster.put("Node", a_node("n1", "NVIDIA-L20", "46068"))
    await world.planned()
    del world.cluster.objects[("Node", "n1")]
    world.cluster.put("Node", a_node("n2", "Tesla-T4", "15360"))
    deployment = world.cluster.one("Deployment", "qwen")
    row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    meta = {"name": "p", "uid": "p", "labels": labels}
    world.cluster.put("Pod", {"metadata": meta, "status": {"conditions": [row]}})
    await world.look()
    selector = world.cluster.one("Deployment", "qwen")["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"nvidia.com/gpu.product": "NVIDIA-L20"}, "a pod that only bears the labels is not the service's"
    owner = {"kind": "Deployment", "uid": deployment["metadata"]["uid"], "controller": True}
    world.cluster.put(
        "ReplicaSet", {"metadata": {"name": "r", "uid": "r", "labels": labels, "ownerReferences": [owner]}}
    )
    world.cluster.put("Pod", {
        "metadata": {**meta, "ownerReferences": [{"kind": "ReplicaSet", "uid": "r", "controller": True}]},
        "status": {"conditions": [row]},
    })  # fmt: skip
    await world.look()
    selector = world.cluster.one("Deployment", "qwen")["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"nvidia.com/gpu.product": "Tesla-T4"}


async def test_a_new_context_is_a_new_plan(world):
    world.cluster.put("Node", a_node())
    await world.planned()
    world.put_service(engine={"maxModelLen": 4096})
    await world.look()
    assert world.args()[world.args().index("--max-model-len") + 1] == "4096"


async def test_a_wrong_new_source_leaves_the_old_pods_alone(world):
    world.cluster.put("Node", a_node())
    await world.planned()
    before = world.cluster.one("Deployment", "qwen")
    world.put_service(model={"id": "m", "source": {"pvc": {"claimName": "models", "path": "nope"}}})
    await world.look()
    world.minute = 1
    world.end_job(BAD)
    await world.look()
    assert world.cluster.one("Deployment", "qwen") == before
    conditions = world.cluster.one("LLMService", "qwen")["status"]["conditions"]
    assert c.find(conditions, "ModelReady")["reason"] == "PathNotFound"


async def test_a_service_that_waits_for_gpus_is_remembered_until_it_has_them(world):
    world.put_service()
    await world.look()
    world.end_job(GOOD)
    await world.look()
    assert world.ready()["reason"] == "NoGpuNodes"
    assert world.reconciler.waiting_for_gpus == {KEY}
    world.cluster.put("Node", a_node())
    await world.look()
    assert world.reconciler.waiting_for_gpus == set()


@pytest.mark.parametrize(
    "broken",
    [
        {"model": {"id": "m", "source": {}}},
        {"model": None},
        {"model": "x"},
        {"replicas": "many"},
        {"engine": 7},
        {"env": [{"name": "A=B"}]},
    ],
    ids=repr,
)
async def test_a_broken_object_is_rejected_in_words(world, broken):
    """Also one that got past the API server, as by an older CRD; the operator lives on."""
    world.put_service(**broken)
    assert await world.look() == 60.0
    assert (world.ready()["status"], world.ready()["reason"]) == ("False", "Rejected")
    assert world.ready()["message"]
    await world.look()
    assert world.cluster.writes == []


async def test_an_object_without_any_spec_is_rejected(world):
    world.cluster.put("LLMService", {"metadata": {"name": "qwen", "namespace": "team-a", "uid": "u"}})
    await world.look()
    assert world.ready()["reason"] == "Rejected"


async def test_a_deleted_object_is_let_go(world):
    assert await world.look() is None
    world.put_service()
    world.cluster.one("LLMService", "qwen")["metadata"]["deletionTimestamp"] = world.now
    assert await world.look() is None
    assert world.cluster.writes == []


async def test_the_same_words_are_one_event_with_a_count(world):
    world.put_service()
    await world.look()
    world.end_job(BAD)
    await world.look()
    world.put_service(replicas=2)
    world.cluster.one("LLMService", "qwen")["status"]["conditions"] = []
    await world.look()
    told = {event["reason"]: event["count"] for event in world.cluster.all("Event")}
    assert told == {"PathNotFound": 2}


async def test_the_near_end_of_a_license_counts_once_a_day(world):
    """A condition that changes and comes back is no second Event; other warnings count each time."""
    world.put_service()
    owner = world.cluster.one("LLMService", "qwen")
    for note in (*3 * [Note("LicenseExpiring", "ends in 9 days")], Note("LicenseExpiring", "ends in 8 days")):
        await record(world.cluster, owner, note, world.now)
    for _ in range(2):
        await record(world.cluster, owner, Note("LicenseExpired", "it ended"), world.now)
    told = {event["reason"]: (event["count"], event["message"]) for event in world.cluster.all("Event")}
    assert told == {"LicenseExpiring": (2, "ends in 8 days"), "LicenseExpired": (2, "it ended")}


async def test_a_resource_that_is_not_read_says_so_and_keeps_what_runs(world):
    """Its stub has no spec; the status is the only thing that is written, and once."""
    world.cluster.put("Node", a_node("n1", "NVIDIA-L20", "46068"))
    await world.planned()
    before = world.cluster.one("Deployment", "qwen")
    world.cluster.put("LLMService", stub(world.cluster.one("LLMService", "qwen"), "the resource has 700 KiB"))
    await world.look()
    assert world.cluster.one("Deployment", "qwen") == before
    assert [write for write in world.cluster.writes if "status" not in write and "Event" not in write] == []
    row = c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], c.PROGRESSING)
    assert (row["reason"], "700 KiB" in row["message"]) == ("SpecTooLarge", True)
    await world.look()
    assert world.cluster.writes == []


async def test_an_unexpected_failure_is_in_its_own_status(world):
    """With the kind of the exception; the API server's failures are not the resource's."""
    world.put_service()
    await world.look()
    await world.reconciler.failed(KEY, RecursionError("maximum recursion depth exceeded"))
    row = c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], c.PROGRESSING)
    assert (row["reason"], "RecursionError" in row["message"]) == ("InternalError", True)
    world.cluster.writes.clear()
    await world.reconciler.failed(KEY, StatusError(500, b"{}"))
    assert world.cluster.writes == []
