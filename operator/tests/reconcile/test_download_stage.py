"""The stage before all others: a Job fills the source, and nothing looks at the directory before it is done."""

from __future__ import annotations

import copy
import json

import httpx2
import pytest
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.status import conditions as c

from .test_reconciler import GOOD, World, a_node, a_service

DOWNLOAD = {"hub": "modelscope", "name": "qwen/Qwen2-0.5B"}
DONE = json.dumps(
    {"ok": True, "download": {"name": "qwen/Qwen2-0.5B", "commit": "c0ffee", "files": 9, "bytesTotal": 988_097_824}}
)
GONE = json.dumps({"ok": False, "reason": "DownloadNotFound", "message": "the hub knows no model qwen/Qwen2-0.5B"})
FACTS = {
    "version": 1,
    "phase": "download",
    "download": {"bytesDone": 2**30, "bytesTotal": 2**31, "bytesPerSecond": 2**20, "remainingSeconds": 1024},
}


def asked(**changes):
    source = {"pvc": {"claimName": "models", "path": "qwen"}}
    return {"model": {"id": "m", "source": source, "download": {**DOWNLOAD, **changes}}}


def jobs(world):
    return {job["metadata"]["name"].rsplit("-", 1)[0]: job for job in world.cluster.all("Job")}


def pod_of(job, number, status):
    meta = {
        "name": f"pod-{number}",
        "uid": f"pod-{number}",
        "labels": job["spec"]["template"]["metadata"]["labels"],
        "ownerReferences": [{"uid": job["metadata"]["uid"], "controller": True}],
    }
    return {"metadata": meta, "status": status}


def ended(world, message, number):
    """Job controller and kubelet, for the Job that downloads."""
    job = jobs(world)["qwen-download"]
    row = {"name": "download", "state": {"terminated": {"exitCode": 0, "message": message, "finishedAt": world.now}}}
    world.cluster.put("Pod", pod_of(job, number, {"phase": "Succeeded", "containerStatuses": [row]}))


def condition(world, type_):
    return c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], type_)


@pytest.fixture
async def world():
    answers = httpx2.MockTransport(lambda _: httpx2.Response(200, json=FACTS))
    async with httpx2.AsyncClient(transport=answers) as http:
        one = World(http)
        one.cluster.put("Node", a_node())
        yield one


async def test_nothing_is_inspected_before_the_download_is_done(world):
    """Job, progress from its pod, then the inspection, the plan and the pods."""
    world.put_service(**asked())
    await world.look()
    assert list(jobs(world)) == ["qwen-download"]
    job = jobs(world)["qwen-download"]
    world.cluster.put("Pod", pod_of(job, 1, {"phase": "Running", "podIP": "10.0.0.1"}))
    await world.look()
    status = world.cluster.one("LLMService", "qwen")["status"]
    assert status["download"] == FACTS["download"]
    assert condition(world, "Downloading")["status"] == "True"
    assert "1.00 of 2.00 GiB (50 %)" in world.ready()["message"]
    assert world.ready()["reason"] == "Downloading"
    ended(world, DONE, 1)
    await world.look()
    assert set(jobs(world)) == {"qwen-download", "qwen-inspect"}
    assert condition(world, "Downloading")["reason"] == "Downloaded"
    inspect = jobs(world)["qwen-inspect"]
    row = {"name": "inspect", "state": {"terminated": {"exitCode": 0, "message": GOOD, "finishedAt": world.now}}}
    world.cluster.put("Pod", pod_of(inspect, 2, {"phase": "Succeeded", "containerStatuses": [row]}))
    await world.look()
    assert world.cluster.one("Deployment", "qwen") is not None
    await world.look()
    await world.look()
    assert world.cluster.writes == []


TROUBLES = {
    "no answer from the hub: [Errno -2] Name or service not known": "; check spec.model.download.endpoint, DNS, egress",
    "the hub answers 429 for model.safetensors": "",
    "the hub's answer for model.safetensors is cut short": "",
}


@pytest.mark.parametrize(("words", "remedy"), TROUBLES.items(), ids=["unreachable", "busy", "cut short"])
async def test_a_hub_in_trouble_is_shown_while_the_download_tries_again(words, remedy):
    """STATUS stays Downloading; the condition has the download's words, and a remedy where nothing answers."""
    facts = {"version": 1, "phase": "download", "download": {"bytesDone": 0, "bytesTotal": 0, "trouble": words}}
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=facts))) as http:
        world = World(http)
        world.put_service(**asked())
        await world.look()
        world.cluster.put("Pod", pod_of(jobs(world)["qwen-download"], 1, {"phase": "Running", "podIP": "10.0.0.1"}))
        await world.look()
        for type_, status in (("Ready", "False"), ("Downloading", "True"), ("ModelReady", "Unknown")):
            row = condition(world, type_)
            assert (row["status"], row["reason"]) == (status, "Downloading")
            shown, _, rest = row["message"].partition(remedy) if remedy else (row["message"], "", "")
            assert (shown, bool(rest)) == (words, True) if remedy else (f"{words}; tried again", False)
            assert row["message"].count("tried again") == 1
        assert "download" not in world.cluster.one("LLMService", "qwen")["status"]
        await world.look()
        assert world.cluster.writes == []


async def test_a_failed_download_is_reported_and_tried_again_later(world):
    """The hub's words stand in Ready; after a minute a new Job is made."""
    world.put_service(**asked())
    await world.look()
    ended(world, GONE, 1)
    assert await world.look() == 60
    assert world.ready()["reason"] == "DownloadNotFound"
    assert "qwen/Qwen2-0.5B" in world.ready()["message"]
    world.minute = 1
    await world.look()
    assert world.cluster.writes[0].startswith("delete Job/qwen-download-")


async def test_services_with_one_target_share_one_job(world):
    """The second becomes an owner beside the first; another revision is another Job."""
    world.put_service(**asked())
    await world.look()
    other = a_service(**asked())
    other["metadata"] = {**other["metadata"], "name": "second", "uid": "u-2"}
    world.cluster.put("LLMService", other)
    await world.reconciler.reconcile(Key("team-a", "second"))
    (job,) = world.cluster.all("Job")
    assert [row["uid"] for row in job["metadata"]["ownerReferences"]] == ["u-1", "u-2"]
    world.put_service(**asked(revision="v2"))
    await world.look()
    assert len(world.cluster.all("Job")) == 2


async def test_going_back_to_an_earlier_revision_downloads_it_again(world):
    """The Job of a revision goes with it: its kept result would name weights that were replaced since."""
    names = []
    for number, revision in enumerate(("v1", "v2", "v1"), 1):
        world.minute += 1
        world.put_service(**asked(revision=revision))
        await world.look()
        (job,) = [job for job in world.cluster.all("Job") if "download" in job["metadata"]["name"]]
        names.append(job["metadata"]["name"])
        assert condition(world, "Downloading")["reason"] == "Downloading"
        job["metadata"]["uid"] = f"job-{number}"
        ended(world, DONE, number)
        await world.look()
        assert condition(world, "Downloading")["reason"] == "Downloaded"
    assert names[0] == names[2] != names[1]


async def test_a_download_that_is_asked_for_no_longer_ends(world):
    """It would go on writing into the directory; without one, nothing is looked for."""
    world.put_service(**asked())
    await world.look()
    world.put_service()
    await world.look()
    assert [write for write in world.cluster.writes if write.startswith("delete Job/qwen-download-")]
    assert "qwen-download" not in jobs(world)
    await world.look()
    assert [write for write in world.cluster.writes if "download" in write] == []


async def test_a_shared_download_is_left_and_not_deleted(world):
    """Whoever wants it still owns it, and a Job that has changed since it was read is not overwritten."""
    world.put_service(**asked())
    other = a_service(**asked())
    other["metadata"] = {**other["metadata"], "name": "second", "uid": "u-2"}
    world.cluster.put("LLMService", other)
    await world.look()
    (job,) = world.cluster.all("Job")
    job["metadata"]["resourceVersion"] = "7"
    patches, overwrite = [], world.cluster.overwrite

    async def seen(manifest):
        patches.append(manifest)
        await overwrite(manifest)

    world.cluster.overwrite = seen
    world.put_service(**asked(revision="v2"))
    await world.look()
    (left, new) = sorted(world.cluster.all("Job"), key=lambda row: row is not job)
    assert [row["uid"] for row in left["metadata"]["ownerReferences"]] == ["u-2"]
    assert [row["uid"] for row in new["metadata"]["ownerReferences"]] == ["u-1"]
    assert [patch["metadata"]["resourceVersion"] for patch in patches] == ["7"]


def shared_job(world, name, uid, created, *owners):
    """The world's download Job under another name, as another reconcile or an earlier operator made it."""
    job = copy.deepcopy(next(job for job in world.cluster.all("Job") if "download" in job["metadata"]["name"]))
    rows = [{**job["metadata"]["ownerReferences"][0], "name": owner, "uid": owner} for owner in owners]
    job["metadata"] |= {"name": name, "uid": uid, "creationTimestamp": created, "ownerReferences": rows}
    return job


async def test_the_job_of_an_earlier_operator_goes_on():
    """It has another name and the same labels: an upgrade starts no download anew."""
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))) as http:
        world = World(http)
        world.put_service(**asked())
        await world.look()
        (now,) = world.cluster.all("Job")
        old = shared_job(
            world, f"windlass-{now['metadata']['name'].partition('-')[2]}", "old", "2025-12-01T00:00:00Z", "u-1"
        )
        world.cluster.objects.pop(("Job", now["metadata"]["name"]))
        world.cluster.put("Job", old)
        await world.look()
        assert world.cluster.writes == []
        row = {"name": "download", "state": {"terminated": {"exitCode": 0, "message": DONE, "finishedAt": world.now}}}
        world.cluster.put("Pod", pod_of(old, 1, {"phase": "Succeeded", "containerStatuses": [row]}))
        await world.look()
        assert condition(world, "Downloading")["reason"] == "Downloaded"


@pytest.mark.parametrize(("owners", "left"), [(["u-1"], False), (["u-1", "u-2"], True)], ids=["alone", "shared"])
async def test_of_two_jobs_for_one_download_the_older_stays(world, owners, left):
    """Two services that begin at once may make one each. A younger one that says it is done is not believed."""
    world.put_service(**asked())
    await world.look()
    (older,) = world.cluster.all("Job")
    forged = shared_job(world, "a-first-by-name", "newer", "2026-01-01T00:00:01Z", *owners)
    forged["metadata"]["annotations"] = {"serving.windlass.dev/download-result": DONE}
    world.cluster.put("Job", forged)
    await world.look()
    assert condition(world, "Downloading")["reason"] == "Downloading"
    assert world.cluster.one("Job", older["metadata"]["name"]) is not None
    newer = world.cluster.one("Job", "a-first-by-name")
    assert (newer is not None) is left
    assert not newer or [row["uid"] for row in newer["metadata"]["ownerReferences"]] == ["u-2"]


TOLERATION = {"key": "dedicated", "operator": "Exists"}


def refused_event(world, words="exceeded quota: q"):
    job = jobs(world)["qwen-download"]
    about = {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    meta = {"name": "e", "namespace": "team-a"}
    world.cluster.put(
        "Event",
        {"metadata": meta, "type": "Warning", "reason": "FailedCreate", "message": words, "involvedObject": about},
    )


async def test_a_refused_download_is_reported_and_made_anew_when_it_would_be_another(world):
    """The quota's sentence stands in Ready. The Job stays until the spec or the chart places its pod otherwise."""
    world.put_service(**asked())
    await world.look()
    refused_event(world)
    for _ in range(2):
        await world.look()
        assert world.ready()["reason"] == "QuotaExceeded"
        assert "exceeded quota: q; the chart's value download.resources says" in world.ready()["message"]
        assert not [write for write in world.cluster.writes if "qwen-download" in write]
    world.reconciler = world.another_operator(download_resources={"limits": {"cpu": "1"}})
    assert await world.look() == 1
    assert [write.rsplit("-", 1)[0] for write in world.cluster.writes] == ["delete Job/qwen-download"]
    assert world.ready()["reason"] == "QuotaExceeded"
    await world.look()
    container = jobs(world)["qwen-download"]["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "1"}}


async def test_a_download_that_gets_on_keeps_its_pod_when_its_placement_changes(world):
    """A Job's pod never changes, and what it has fetched is worth keeping."""
    world.put_service(**asked())
    await world.look()
    world.cluster.put("Pod", pod_of(jobs(world)["qwen-download"], 1, {"phase": "Running", "podIP": "10.0.0.1"}))
    world.put_service(**asked(), scheduling={"tolerations": [TOLERATION]})
    await world.look()
    assert not [write for write in world.cluster.writes if "Job/" in write]


async def test_a_download_whose_pod_an_injected_container_holds_open_ends_it(world):
    """A claim of one node would else stay there: the Job keeps its last word and ends its pods, once."""
    world.put_service(**asked())
    await world.look()
    job = jobs(world)["qwen-download"]
    own = {"name": "download", "state": {"terminated": {"exitCode": 0, "message": DONE, "finishedAt": world.now}}}
    proxy = {"name": "a-proxy", "state": {"running": {"startedAt": world.now}}}
    world.cluster.put("Pod", pod_of(job, 1, {"phase": "Running", "containerStatuses": [proxy, own]}))
    await world.look()
    job = jobs(world)["qwen-download"]
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["annotations"]["serving.windlass.dev/download-result"] == DONE
    assert condition(world, "Downloading")["reason"] == "Downloaded"
    await world.look()
    assert not [write for write in world.cluster.writes if "qwen-download" in write]


async def test_the_pod_of_another_job_ends_no_download(world):
    """Jobs for one download have the same labels: the pod that is held open is another Job's."""
    world.put_service(**asked())
    await world.look()
    own = {"name": "download", "state": {"terminated": {"exitCode": 0, "message": DONE, "finishedAt": world.now}}}
    proxy = {"name": "a-proxy", "state": {"running": {"startedAt": world.now}}}
    other = pod_of(jobs(world)["qwen-download"], 2, {"phase": "Running", "containerStatuses": [proxy, own]})
    other["metadata"]["ownerReferences"] = [{"uid": "another", "controller": True}]
    world.cluster.put("Pod", other)
    ended(world, DONE, 1)
    await world.look()
    job = jobs(world)["qwen-download"]
    assert job["metadata"]["annotations"]["serving.windlass.dev/download-result"] == DONE
    assert "suspend" not in job["spec"]
