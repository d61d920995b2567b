"""The console before a real API server: what a user does by the pages, as two users of different rights."""

from __future__ import annotations

import copy
import json

import httpx2
import pytest

pytestmark = pytest.mark.apiserver

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def path(namespace) -> str:
    return f"/api/services/{namespace}"


def test_a_session_has_the_users_name_and_the_namespaces_that_they_may_see(editor, admin, namespace):
    """A service account sees its own namespace, an administrator all; no answer holds a token."""
    own = editor.get("/api/session").json()
    assert own["user"] == f"system:serviceaccount:{namespace}:editor"
    assert (own["namespaces"], own["defaultNamespace"]) == ([{"name": namespace, "create": True}], namespace)
    assert (own["allNamespaces"], own["namespacesComplete"], own["via"]) == (False, False, "cookie")
    assert own["expires"].startswith("20")
    every = admin.get("/api/session").json()
    assert (every["allNamespaces"], every["namespacesComplete"]) == (True, True)
    assert namespace in [one["name"] for one in every["namespaces"]]


def test_signing_out_takes_the_cookie_back(editor):
    assert editor.delete("/api/session").status_code == 204
    assert editor.get("/api/session").status_code == 401


def test_a_token_that_the_api_server_does_not_know_is_refused(url, at):
    with httpx2.Client(base_url=url, trust_env=False, headers=at.CSRF) as http:
        answer = http.post("/api/session", json={"token": "a.b.c"})
        assert (answer.status_code, answer.json()["reason"]) == (401, "SignIn")
        assert "set-cookie" not in answer.headers


def test_an_ingress_may_sign_in_by_its_header(apiserver, at, url, namespace):
    token = at.a_token(apiserver, namespace, "oidc", at.VIEWER)
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx2.get(f"{url}/api/session", headers=headers, trust_env=False).json()
    assert (answer["via"], answer["user"]) == ("header", f"system:serviceaccount:{namespace}:oidc")


def test_permissions_are_the_api_servers(editor, viewer, namespace):
    """What a user may not do is not offered."""
    may = editor.get("/api/permissions", params={"namespace": namespace}).json()["can"]
    look = viewer.get("/api/permissions", params={"namespace": namespace}).json()["can"]
    words = ("list", "create", "edit", "scale", "delete", "logs", "chat", "bench", "nodes")
    assert {word: may[word] for word in words} == {word: word != "nodes" for word in words}
    assert {word: look[word] for word in words} == {word: word in ("list", "logs") for word in words}


def test_a_service_from_form_to_deletion(editor, at, path):
    """Create, read, edit by the whole document and by a merge, scale, suspend, delete."""
    made = editor.post(path, json=at.a_service())
    assert (made.status_code, made.json()["spec"]["replicas"]) == (201, 1)
    one = editor.get(f"{path}/qwen").json()
    assert (one["row"]["model"], one["row"]["state"], one["remedy"]) == ("Qwen2-7B-Instruct", "wait", "")
    assert "managedFields" not in one["service"]["metadata"]
    loaded, document = copy.deepcopy(one["service"]), one["service"]
    document["spec"]["engine"] = {"maxModelLen": 4096}
    document["metadata"]["labels"] = {"team": "a"}
    changed = editor.put(f"{path}/qwen", json={"loaded": loaded, "wanted": document})
    assert (changed.status_code, changed.json()["spec"]["engine"]["maxModelLen"]) == (200, 4096)
    assert changed.json()["metadata"]["labels"] == {"team": "a"}
    assert editor.put(f"{path}/qwen", json={"loaded": loaded, "wanted": document}).status_code == 409
    assert editor.patch(f"{path}/qwen", json={"spec": {"engine": {"maxModelLen": None}}}).is_success
    assert editor.put(f"{path}/qwen/scale", json={"replicas": 3}).status_code == 204
    assert editor.put(f"{path}/qwen/suspend", json={"suspend": True}).json()["spec"]["suspend"] is True
    assert editor.put(f"{path}/qwen/retry", json={}).is_success
    row = editor.get("/api/services", params={"namespace": path.rpartition("/")[2]}).json()["items"][0]
    assert (row["name"], row["replicas"], row["state"], row["maxModelLen"]) == ("qwen", 3, "off", None)
    assert editor.delete(f"{path}/qwen").status_code == 204
    gone = editor.get(f"{path}/qwen")
    assert (gone.status_code, gone.json()["reason"]) == (404, "NotFound")


def test_an_edit_is_saved_over_the_operators_status_writes(apiserver, editor, at, path, namespace):
    """The status and somebody's annotation change while the form is open: they stay; another spec is a conflict."""
    editor.post(path, json=at.a_service())
    loaded = editor.get(f"{path}/qwen").json()["service"]
    status = {"status": {"observedGeneration": 1}}
    place = ("llmservice", "qwen", "-n", namespace)
    apiserver.kubectl("patch", *place, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    apiserver.kubectl("annotate", *place, "note=theirs")
    wanted = copy.deepcopy(loaded)
    wanted["spec"]["engine"] = {"maxModelLen": 4096}
    wanted["metadata"]["annotations"] = {"own": "mine"}
    saved = editor.put(f"{path}/qwen", json={"loaded": loaded, "wanted": wanted})
    assert saved.status_code == 200, saved.text
    assert (saved.json()["spec"]["engine"]["maxModelLen"], saved.json()["status"]["observedGeneration"]) == (4096, 1)
    assert saved.json()["metadata"]["annotations"] == {"own": "mine", "note": "theirs"}
    wanted["spec"]["replicas"] = 2
    late = editor.put(f"{path}/qwen", json={"loaded": loaded, "wanted": wanted})
    assert (late.status_code, "generation 1 was loaded, 2 is stored" in late.json()["error"]) == (409, True)


def test_a_refusal_marks_the_fields_of_the_form(editor, at, path):
    """The API server's own sentence, and where it belongs."""
    answer = editor.post(path, json=at.a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"}))
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert "ifq_nf4 runs in float16 only" in answer.json()["error"]
    assert answer.json()["fields"][0]["field"] == "spec.engine"
    assert editor.post(path, json=at.a_service(), params={"dryRun": "true"}).status_code == 201
    assert editor.get(f"{path}/qwen").status_code == 404
    editor.post(path, json=at.a_service())
    assert editor.post(path, json=at.a_service()).status_code == 409


def test_a_viewer_reads_and_changes_nothing(editor, viewer, at, path, namespace):
    """The API server refuses by the viewer's own token, whatever the pages offer."""
    editor.post(path, json=at.a_service())
    assert viewer.get(f"{path}/qwen").json()["row"]["name"] == "qwen"
    assert viewer.get(f"{path}/qwen/pods").json() == {"items": []}
    assert viewer.get(f"{path}/qwen/events").json() == {"items": []}
    for answer in (
        viewer.post(path, json=at.a_service("other")),
        viewer.patch(f"{path}/qwen", json={"spec": {"replicas": 2}}),
        viewer.put(f"{path}/qwen/scale", json={"replicas": 2}),
        viewer.delete(f"{path}/qwen"),
        viewer.get("/api/capacity"),
        viewer.get("/api/services", params={"namespace": "default"}),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden"), answer.text
        assert "viewer" in answer.json()["error"]
    assert editor.get(f"{path}/qwen").json()["service"]["spec"]["replicas"] == 1
    listed = editor.get("/api/services", params={"namespace": namespace}).json()["items"]
    assert [row["name"] for row in listed] == ["qwen"]


def test_a_plan_is_shown_before_anything_is_created(admin, at, path, namespace):
    """On the CPU, as this API server has no GPU nodes; the refusal that says so; and what is missing."""
    body = {"namespace": namespace, "service": at.a_service(resources={"gpus": 0}), "config": CONFIG}
    planned = admin.post("/api/plan", json=body).json()
    assert (planned["preview"]["plan"]["gpus"], planned["refused"], planned["factsFrom"]) == (0, "", "config")
    refused = admin.post("/api/plan", json={**body, "service": at.a_service()}).json()
    assert (refused["preview"]["fits"], refused["preview"]["reason"]) == (False, "NoGpuNodes")
    nothing = admin.post("/api/plan", json={**body, "config": None}).json()
    assert (nothing["preview"], "config.json" in nothing["noFacts"]) == (None, True)
    wrong = at.a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"})
    marked = admin.post("/api/plan", json={**body, "service": wrong}).json()
    assert "ifq_nf4 runs in float16 only" in marked["refused"]
    assert marked["problems"][0]["field"] == "spec.engine"
    assert admin.get(path.replace(f"/{namespace}", ""), params={"namespace": namespace}).json()["items"] == []


def test_changes_come_as_server_sent_events(editor, at, path, namespace):
    """What is there, then what happens; joined, and the last state alone."""
    editor.post(path, json=at.a_service())
    with editor.stream("GET", "/api/services/watch", params={"namespace": namespace}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = at.events(answer)
        name, first = next(stream)
        assert (name, first["reset"], [row["name"] for row in first["upserted"]]) == ("ROWS", True, ["qwen"])
        editor.put(f"{path}/qwen/scale", json={"replicas": 2})
        _, changed = next(stream)
        assert (changed["reset"], changed["upserted"][0]["replicas"]) == (False, 2)
        editor.delete(f"{path}/qwen")
        gone = next(data for _, data in stream if data["deleted"])
        assert gone["deleted"] == [{"namespace": namespace, "name": "qwen"}]


def test_all_namespaces_of_a_user_without_the_right_to_all(editor, at, path, namespace):
    """The namespaces that they may see, one by one."""
    editor.post(path, json=at.a_service())
    with editor.stream("GET", "/api/services/watch", params={"namespace": "*"}) as answer:
        _, first = next(at.events(answer))
        assert [(row["namespace"], row["name"]) for row in first["upserted"]] == [(namespace, "qwen")]


def test_one_service_is_followed(editor, at, path):
    editor.post(path, json=at.a_service())
    assert editor.get(f"{path}/other/watch").status_code == 404
    with editor.stream("GET", f"{path}/qwen/watch") as answer:
        stream = at.events(answer)
        assert next(stream)[1]["row"]["name"] == "qwen"
        editor.put(f"{path}/qwen/scale", json={"replicas": 2})
        assert next(stream)[1]["service"]["spec"]["replicas"] == 2
        editor.delete(f"{path}/qwen")
        assert next(name for name, _ in stream) == "DELETED"


def test_a_service_without_pods_says_that_it_has_no_log(editor, at, path):
    editor.post(path, json=at.a_service())
    with editor.stream("GET", f"{path}/qwen/logs") as answer:
        name, data = next(at.events(answer))
    assert (name, data["reason"]) == ("ERROR", "NoLogs")


def test_streams_of_a_user_are_bounded(editor, namespace):
    """The seventeenth is refused by a sentence; the others go on."""
    held = []
    try:
        for _ in range(16):
            held.append(
                editor.send(editor.build_request("GET", f"/api/services/watch?namespace={namespace}"), stream=True)
            )
        refused = editor.get("/api/services/watch", params={"namespace": namespace})
        assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyStreams")
    finally:
        for one in held:
            one.close()


def test_what_the_form_offers(admin, editor, at, path, namespace):
    """The schema, models of services that are there, and null for what may not be listed."""
    assert "spec" in admin.get("/api/schema").json()["properties"]
    editor.post(path, json=at.a_service())
    (model,) = editor.get("/api/models", params={"namespace": namespace}).json()["items"]
    assert (model["id"], model["source"]["pvc"]["path"], model["known"]) == ("Qwen2-7B-Instruct", "qwen2-7b", False)
    offered = editor.get("/api/choices", params={"namespace": namespace}).json()
    assert offered == {"claims": [], "gpuTypes": None, "storageClasses": None, "runtimeClasses": None}


def test_how_to_call_it(editor, at, path, namespace):
    editor.post(path, json=at.a_service(expose={"apiKeysSecretRef": {"name": "keys"}}))
    call = editor.get(f"{path}/qwen/call").json()
    assert call["addresses"] == [{"name": "cluster", "url": f"http://qwen.{namespace}.svc:8501/v1"}]
    assert (call["model"], call["keyed"], call["keysSecret"]) == ("Qwen2-7B-Instruct", True, "keys")
    assert "Authorization: Bearer $API_KEY" in call["curl"]


def test_benchmarks_need_a_running_pod(editor, at, path, namespace):
    editor.post(path, json=at.a_service())
    assert editor.get("/api/benchmarks", params={"namespace": namespace}).json() == {"items": []}
    answer = editor.post(f"/api/benchmarks/{namespace}/qwen", json={"concurrency": [1, 10]})
    assert (answer.status_code, "has no running pod" in answer.json()["error"]) == (422, True)


def test_licenses_are_listed_for_those_who_may(admin, editor):
    found = admin.get("/api/licenses").json()  # tests beside this one may have license servers and GPUs
    assert {name: type(value) for name, value in found.items()} == {"servers": list, "gpusInCluster": int}
    assert editor.get("/api/licenses").status_code == 403
