"""Benchmarks, licenses, choices and plans: what is read through the API server, and what of it is believed."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import re
import tarfile
from typing import Any

import pytest
from windlass_client.bench_job import LABELS, SERVICE_LABEL
from windlass_console.cluster import licensing
from windlass_console.cluster.benchmarks import bench_of, words

JOBS = "/apis/batch/v1/namespaces/team-a/jobs"
PODS = "/api/v1/namespaces/team-a/pods"


def a_job(**status: object) -> dict[str, Any]:
    labels = {**LABELS, SERVICE_LABEL: "qwen"}
    container = {"name": "bench", "args": ["--server=x", "--concurrency=1"]}
    return {
        "metadata": {"name": "qwen-bench-1", "namespace": "team-a", "labels": labels, "creationTimestamp": "t0"},
        "spec": {"template": {"spec": {"containers": [container]}}},
        "status": status,
    }


def ended(kind: str, message: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": "t1", "message": message}]}


@pytest.mark.parametrize(
    ("status", "state"),
    [({}, "waiting"), ({"ready": 1}, "running"), (ended("Complete"), "done"), (ended("Failed", "m"), "failed")],
    ids=["waiting", "running", "done", "failed"],
)
def test_the_state_of_a_benchmark_is_its_jobs(status, state):
    bench = bench_of(a_job(**status))
    assert (bench["state"], bench["service"], bench["command"][1]) == (state, "qwen", "--concurrency=1")
    assert (bench["ended"], bench["message"]) == (
        ("t1", "m") if state == "failed" else ("t1", "") if state == "done" else ("", "")
    )


def test_the_options_of_a_sweep():
    assert words("random", [1, 10], {"num-prompts": 50, "input-len": None}) == (
        "--dataset=random",
        "--concurrency=1,10",
        "--num-prompts=50",
    )


def a_log(files: dict[str, bytes], digest: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    body = gzip.compress(packed.getvalue())
    mark = "windlass-bench-archive "
    lines = [
        "warming up",
        mark + base64.b64encode(body).decode(),
        f"{mark}sha256={digest or hashlib.sha256(body).hexdigest()}",
    ]
    return "\n".join(lines).encode()


def a_pod() -> dict[str, Any]:
    state = {"terminated": {"exitCode": 0}}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "bench", "state": state}]}
    return {"metadata": {"name": "p", "creationTimestamp": "t"}, "status": status}


async def test_results_come_out_of_the_log(ann, kube):
    """Progress, rows and summary; a log that was changed is a message and no rows."""
    kube.on("GET", f"{JOBS}/qwen-bench-1", 200, a_job(**ended("Complete")))
    kube.on("GET", PODS, 200, {"items": [a_pod()], "metadata": {}})
    files = {"summary.csv": b"Name,Output token throughput (tok/s)\nx,12.5\n", "summary.txt": b"all good"}
    kube.on("GET", f"{PODS}/p/log", 200, a_log(files))
    bench = (await ann.get("/api/benchmarks/team-a/qwen-bench-1")).json()
    assert bench["rows"] == [{"Name": "x", "Output token throughput (tok/s)": "12.5"}]
    assert (bench["summary"], bench["tail"], bench["state"]) == ("all good", ["warming up"], "done")
    kube.on("GET", f"{PODS}/p/log", 200, a_log(files, digest="0" * 64))
    bench = (await ann.get("/api/benchmarks/team-a/qwen-bench-1")).json()
    assert (bench["rows"], "not whole" in bench["message"]) == (None, True)


BOMBS = {
    "a large summary": ({"summary.txt": b" " * ((1 << 20) + 1)}, "more than the 1048576"),
    "large files beside it": ({"a.json": b" " * (33 << 20), "summary.csv": b"a\n1\n"}, "unpacks to more"),
    "many rows": ({"summary.csv": b"a\n" + b"1\n" * 1001}, "more than 1000 rows"),
    "many columns": ({"summary.csv": b"a\n" + b"1," * 64 + b"1\n"}, "64 columns"),
    "one long field": ({"summary.csv": b"a\n" + b"1" * 200_000}, "no table"),
    "a field without end": ({"summary.csv": b'a\n"' + b"1\n" * 100_000}, "no table"),
}


@pytest.mark.parametrize(("files", "words"), BOMBS.values(), ids=BOMBS.keys())
async def test_results_without_bound_are_a_message(ann, kube, files, words):
    """Whoever may make a Job writes the log; the console holds no more of it than a benchmark brings."""
    kube.on("GET", f"{JOBS}/qwen-bench-1", 200, a_job(**ended("Complete")))
    kube.on("GET", PODS, 200, {"items": [a_pod()], "metadata": {}})
    kube.on("GET", f"{PODS}/p/log", 200, a_log(files))
    answer = await ann.get("/api/benchmarks/team-a/qwen-bench-1")
    assert (answer.status_code, answer.json()["rows"]) == (200, None)
    assert words in answer.json()["message"]


async def test_a_table_of_the_largest_size_is_shown(ann, kube):
    """A short row has the columns that it has, and cells beyond the head are left out."""
    kube.on("GET", f"{JOBS}/qwen-bench-1", 200, a_job(**ended("Complete")))
    kube.on("GET", PODS, 200, {"items": [a_pod()], "metadata": {}})
    table = b"a,b\n" + b"1,2\n" * 998 + b"3\n1,2,3\n"
    kube.on("GET", f"{PODS}/p/log", 200, a_log({"summary.csv": table, "noise.json": b" " * (2 << 20)}))
    rows = (await ann.get("/api/benchmarks/team-a/qwen-bench-1")).json()["rows"]
    assert (len(rows), rows[0], rows[-2:]) == (1000, {"a": "1", "b": "2"}, [{"a": "3"}, {"a": "1", "b": "2"}])


async def test_a_job_of_somebody_else_is_neither_read_nor_deleted(ann, kube):
    kube.on("GET", f"{JOBS}/backup", 200, {"metadata": {"name": "backup"}})
    for method in ("GET", "DELETE"):
        answer = await ann.request(method, "/api/benchmarks/team-a/backup")
        assert (answer.status_code, "no benchmark" in answer.json()["error"]) == (404, True)
    assert "DELETE" not in [request.method for request in kube.asked]


async def test_a_benchmark_is_the_plug_ins_job(ann, kube):
    """Made in the user's name from a serving pod, with the service's own keys."""
    service = {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "qwen", "namespace": "team-a", "uid": "u"},
        "spec": {"expose": {"apiKeysSecretRef": {"name": "keys"}}},
    }
    pod = {
        "metadata": {"name": "qwen-0"},
        "spec": {"containers": [{"name": "server", "image": "windlass/server:1", "args": ["--model", "/data/model"]}]},
        "status": {"phase": "Running"},
    }
    kube.on("GET", "/apis/serving.windlass.dev/v1alpha1/namespaces/team-a/llmservices/qwen", 200, service)
    kube.on("GET", PODS, 200, {"items": [pod], "metadata": {}})
    kube.on("POST", JOBS, 201, a_job())
    body = {"concurrency": [1, 10], "prompts": 50, "dataset": "demo"}
    answer = await ann.post("/api/benchmarks/team-a/qwen", json=body)
    assert (answer.status_code, answer.json()["state"]) == (201, "waiting")
    sent = kube.asked[-1].content.decode()
    for word in (
        "windlass/server:1",
        "--dataset=demo",
        "--concurrency=1,10",
        "--num-prompts=50",
        '"secretName": "keys"',
    ):
        assert word in sent
    for wrong in (
        {"concurrency": []},
        {"concurrency": [0]},
        {"concurrency": [1], "cpu": "1; rm"},
        {"concurrency": [1], "words": ["--token=x"]},
    ):
        assert (await ann.post("/api/benchmarks/team-a/qwen", json=wrong)).status_code == 400


async def test_a_license_server_that_does_not_answer_is_a_row_with_its_problem(ann, kube):
    deployment = {"metadata": {"name": "windlass-license-server", "namespace": "kube-system"}, "spec": {"replicas": 2}}
    kube.on("GET", "/apis/apps/v1/deployments", 200, {"items": [deployment], "metadata": {}})
    kube.on("GET", "/api/v1/nodes", 200, {"items": [], "metadata": {}})
    (server,) = (await ann.get("/api/licenses")).json()["servers"]
    assert (server["replicas"], server["license"], "not there" in server["problem"]) == (2, None, True)


@pytest.mark.simulated_time
async def test_a_silent_license_server_is_waited_for_briefly(ann, kube, monkeypatch):
    """Packets that a NetworkPolicy drops are never answered; the page knows it within seconds, and what to do."""
    run_license_servers(kube, "kube-system")

    async def silent(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(licensing, "_read", silent)
    (server,) = (await ann.get("/api/licenses")).json()["servers"]
    assert "cannot be reached by the API server: no answer within 5 s" in server["problem"]
    assert "networkPolicy.controlPlane" in server["problem"]


def a_license_server(namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": "windlass-license-server", "namespace": namespace}, "spec": {"replicas": 1}}


def run_license_servers(kube: Any, *namespaces: str) -> None:
    kube.on("GET", "/api/v1/nodes", 200, {"items": [], "metadata": {}})
    rows = [a_license_server(one) for one in namespaces]
    kube.on("GET", "/apis/apps/v1/deployments", 200, {"items": rows, "metadata": {}})
    for row in rows:
        place = f"/apis/apps/v1/namespaces/{row['metadata']['namespace']}/deployments"
        kube.on("GET", place, 200, {"items": [row], "metadata": {}})


def proxied(namespace: str, path: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services/windlass-license-server:10080/proxy{path}"


OURS = "http://windlass-license-server.licenses.svc:10080"
KNOWN = {
    "unknown": ((), [("kube-system", False, True), ("licenses", True, True), ("team-b", True, True)]),
    "known": ((OURS,), [("licenses", False, True), ("kube-system", True, False), ("team-b", True, False)]),
}


@pytest.mark.parametrize(("addresses", "expected"), KNOWN.values(), ids=KNOWN.keys())
async def test_a_license_goes_to_the_operators_servers(start, kube, addresses, expected):
    """A tenant's Deployment with the label is named as such, and collects no token where the operator's are known."""
    run_license_servers(kube, "kube-system", "licenses", "team-b")
    kube.on("POST", proxied("team-b", "/ls"), 200, b"got it")
    browser = start(license_addresses=addresses)
    await browser.post("/api/session", json={"token": "ann"})
    servers = (await browser.get("/api/licenses")).json()["servers"]
    assert [(one["namespace"], bool(one["warning"]), one["upload"]) for one in servers] == expected
    assert "in namespace team-b reads what is sent" in servers[2]["warning"]
    path, headers = "/api/licenses/team-b/windlass-license-server", {"X-License-Token": "s3cret"}
    answer = await browser.post(path, content=b"file", headers=headers)
    assert answer.status_code == (422 if addresses else 200)
    assert ("s3cret" in str([request.headers for request in kube.asked])) == (not addresses)


VIEW = """appid: "1"
customer: Acme
accesslimit: 0
gpuinfos:
- {brand: L20, count: 2, issuedtime: 2026-01-01, expiredtime: 2099-01-01}
"""
VIEWS = {
    "a license": (VIEW, ""),
    "aliases": (VIEW + "x: &x [a]\ny: [*x, *x]\n", "sends what is no license"),
    "too long": (VIEW + "#" * (1 << 20), "more than 1 MiB"),
}


@pytest.mark.parametrize(("view", "problem"), VIEWS.values(), ids=VIEWS.keys())
async def test_a_view_is_read_within_bounds(ann, kube, view, problem):
    run_license_servers(kube, "kube-system")
    kube.on("GET", proxied("kube-system", "/ls/view"), 200, view.encode())
    kube.on("GET", proxied("kube-system", "/metrics"), 200, b"")
    (server,) = (await ann.get("/api/licenses")).json()["servers"]
    assert (bool(server["license"]), problem in server["problem"]) == (not problem, True)


async def test_a_license_server_does_not_end_the_session(ann, kube):
    """Its Status with 401 is its problem."""
    status = {"kind": "Status", "reason": "Unauthorized", "message": "go away"}
    run_license_servers(kube, "kube-system")
    kube.on("GET", proxied("kube-system", "/ls/view"), 401, status)
    answer = await ann.get("/api/licenses")
    assert (answer.status_code, "answers 401" in answer.json()["servers"][0]["problem"]) == (200, True)
    kube.on("POST", proxied("kube-system", "/ls"), 401, status)
    answer = await ann.post("/api/licenses/kube-system/windlass-license-server", content=b"file")
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


async def test_no_more_license_servers_are_asked_than_a_cluster_has(ann, kube):
    """One of them with a Secret without a name, which the API server takes."""
    run_license_servers(kube, *(f"team-{number}" for number in range(40)), "kube-system")
    variable = {"name": "WINDLASS_LICENSE_ADMIN_TOKEN", "valueFrom": {"secretKeyRef": {"key": "token"}}}
    rows = kube.answers["GET", "/apis/apps/v1/deployments"][1]["items"]
    rows[0]["spec"]["template"] = {"spec": {"containers": [{"name": "server", "env": [variable]}]}}
    servers = (await ann.get("/api/licenses")).json()["servers"]
    assert (len(servers), servers[0]["namespace"]) == (41, "kube-system")
    assert sum("not asked" in one["problem"] for one in servers) == 41 - 32


async def test_an_empty_or_oversized_license_is_refused(ann):
    path = "/api/licenses/kube-system/windlass-license-server"
    assert (await ann.post(path, content=b"")).status_code == 422
    assert (await ann.post(path, content=b"x" * ((16 << 20) + 1))).status_code == 413


async def test_choices_are_null_where_the_user_may_not_list(ann, kube):
    claim = {
        "metadata": {"name": "models"},
        "status": {"capacity": {"storage": "5Gi"}},
        "spec": {"accessModes": ["ReadWriteMany"]},
    }
    kube.on("GET", "/api/v1/namespaces/team-a/persistentvolumeclaims", 200, {"items": [claim], "metadata": {}})
    refused = {"kind": "Status", "reason": "Forbidden", "message": "no"}
    kube.on("GET", "/api/v1/nodes", 403, refused)
    found = (await ann.get("/api/choices", params={"namespace": "team-a"})).json()
    assert found["claims"] == [{"name": "models", "size": "5Gi", "modes": ["ReadWriteMany"]}]
    assert found["gpuTypes"] is None


SERVICES = "/apis/serving.windlass.dev/v1alpha1/namespaces/team-a/llmservices"
FORM = {
    "apiVersion": "serving.windlass.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "qwen", "namespace": "team-a"},
    "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}},
}
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (404, "NotFound")])
async def test_a_form_is_checked_without_the_right_to_nodes(ann, kube, status, reason):
    """A tenant sees what the API server refuses, and why there is no plan."""
    causes = {"causes": [{"field": "spec.engine", "message": "ifq_nf4 runs in float16 only"}]}
    invalid = {"kind": "Status", "reason": "Invalid", "message": "no", "details": causes}
    kube.on("POST", SERVICES, 422, invalid)
    kube.on("GET", "/api/v1/nodes", status, {"kind": "Status", "reason": reason, "message": "nodes is forbidden"})
    answer = await ann.post("/api/plan", json={"namespace": "team-a", "service": FORM, "config": QWEN2})
    planned = answer.json()
    assert (answer.status_code, planned["preview"], planned["noFacts"]) == (200, None, "")
    assert planned["problems"] == [{"field": "spec.engine", "message": "ifq_nf4 runs in float16 only"}]
    assert "nodes is forbidden" in planned["noPlan"]


async def test_a_new_name_is_tried_as_it_would_be_saved(ann, kube):
    """By create; the right to patch is asked for where the name is there."""
    nodes = {"kind": "Status", "reason": "Forbidden", "message": "no"}
    kube.on("GET", "/api/v1/nodes", 403, nodes)
    kube.on("POST", SERVICES, 201, FORM)
    body = {"namespace": "team-a", "service": FORM, "config": QWEN2}
    assert (await ann.post("/api/plan", json=body)).json()["refused"] == ""
    assert "PATCH" not in [request.method for request in kube.asked]
    kube.on("POST", SERVICES, 409, {"kind": "Status", "reason": "AlreadyExists", "message": "exists"})
    kube.on("PATCH", f"{SERVICES}/qwen", 403, {"kind": "Status", "reason": "Forbidden", "message": "may not patch"})
    assert "may not patch" in (await ann.post("/api/plan", json=body)).json()["refused"]
    assert {request.url.params["dryRun"] for request in kube.asked if "llmservices" in request.url.path} == {"All"}


async def test_a_plan_needs_no_name(ann, kube):
    """The dry run has a name that no service has, and no existing service is asked to be changed."""
    document = FORM | {"metadata": {"name": "", "namespace": "team-a"}}
    kube.on("GET", "/api/v1/nodes", 200, {"items": [], "metadata": {}})
    kube.on("GET", "/api/v1/pods", 200, {"items": [], "metadata": {}})
    kube.on("POST", SERVICES, 201, FORM)
    planned = (await ann.post("/api/plan", json={"namespace": "team-a", "service": document, "config": QWEN2})).json()
    assert (planned["problems"], planned["refused"], planned["noPlan"]) == ([], "", "")
    assert planned["preview"] is not None
    (sent,) = (json.loads(one.content) for one in kube.asked if one.method == "POST" and one.url.path == SERVICES)
    assert re.fullmatch(r"unnamed-[0-9a-f]{8}", sent["metadata"]["name"])
    planned = (await ann.post("/api/plan", json={"namespace": "team-a", "service": document})).json()
    assert planned["noFacts"].startswith("nothing is known of the model")


async def test_a_user_without_the_right_to_namespaces_sees_those_that_are_offered(start, kube):
    kube.on("GET", "/api/v1/namespaces", 403, {"kind": "Status", "reason": "Forbidden", "message": "no"})
    kube.allowed = lambda asked: asked["namespace"] == "team-b"
    session = (await start(namespaces=("team-a", "team-b")).post("/api/session", json={"token": "ann"})).json()
    assert session["namespaces"] == [{"name": "team-b", "create": True}]
    assert (session["namespacesComplete"], session["defaultNamespace"]) == (False, "team-b")
