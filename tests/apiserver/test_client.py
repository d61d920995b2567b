"""The typed client against a real API server: every method, every refusal, and watches that outlive their version."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from windlass_api.crd.v1alpha1 import EngineSpec
from windlass_api.names import JOB_ANNOTATION, RESULT_ANNOTATION
from windlass_base.kube.errors import ExpiredError
from windlass_client import (
    AlreadyExistsError,
    AsyncClient,
    Client,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NoFactsError,
    NoLogsError,
    NotFoundError,
    NotInstalledError,
    UnauthorizedError,
    UnreachableError,
    find_access,
    token_access,
    watching,
)
from windlass_client import client as client_module
from windlass_sizing.model.facts import from_config

pytestmark = pytest.mark.apiserver

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
NODE = "gpu-node-of-test-client"


def a_service(name: str = "qwen", **spec: object) -> dict[str, object]:
    model = {"id": "Qwen2-7B-Instruct", "source": {"pvc": {"claimName": "models", "path": "qwen2-7b"}}}
    return {"metadata": {"name": name}, "spec": {"model": model, **spec}}


@pytest.fixture
def client(apiserver, namespace):
    with Client(find_access(kubeconfig=apiserver.kubeconfig, namespace=namespace)) as one:
        yield one


@pytest.fixture
def aclient(apiserver, namespace):
    return AsyncClient(find_access(kubeconfig=apiserver.kubeconfig, namespace=namespace))


@pytest.fixture
def gpu_node(apiserver):
    """A node of eight named GPUs, ready for pods."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
    apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(node))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"},
                         "conditions": [ready]}}  # fmt: skip
    apiserver.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    yield NODE
    apiserver.kubectl("delete", "node", NODE)


def test_a_service_is_created_read_changed_scaled_and_deleted(client, namespace):
    """The life of a service, typed all the way."""
    made = client.create(a_service())
    assert (made.metadata.name, made.metadata.namespace, made.spec.replicas) == ("qwen", namespace, 1)
    assert made.metadata.creation_timestamp
    assert [one.metadata.name for one in client.list()] == ["qwen"]
    assert {one.metadata.namespace for one in client.list("*")} >= {namespace}

    changed = client.patch("qwen", {"spec": {"engine": EngineSpec(max_model_len=4096)}})
    assert (changed.spec.engine.max_model_len, changed.spec.engine.gpu_memory_utilization_percent) == (4096, 90)
    assert client.patch("qwen", {"spec": {"engine": {"maxModelLen": None}}}).spec.engine.max_model_len is None

    client.scale("qwen", 3)
    assert client.get("qwen").spec.replicas == 3
    client.delete("qwen")
    client.delete("qwen", missing_ok=True)
    with pytest.raises(NotFoundError, match=r'llmservice .*/qwen: .*"qwen" not found'):
        client.delete("qwen")


def test_a_read_service_can_be_created_again_elsewhere(client, apiserver):
    """What was read is what is sent: no field of the server's own goes along."""
    first = client.create(a_service(args=["--seed", "1"]))
    apiserver.kubectl("create", "namespace", f"{client.namespace}-b")
    second = client.create(first, f"{client.namespace}-b")
    assert second.spec == first.spec
    assert second.metadata.uid != first.metadata.uid


def test_a_patch_sends_only_what_was_given(client):
    """Another writer's field stays, though the caller's model has a default for it."""
    client.create(a_service(engine={"enforceEager": True, "maxModelLen": 1024}))
    client.patch("qwen", {"spec": {"engine": EngineSpec(dtype="bfloat16")}})
    engine = client.get("qwen").spec.engine
    assert (engine.enforce_eager, engine.max_model_len, engine.dtype) == (True, 1024, "bfloat16")


def test_server_side_apply_owns_the_fields_given_and_names_the_other_owner(client, apiserver, namespace):
    """A conflict says who owns the field; force takes it over; nothing else is touched."""
    access = find_access(kubeconfig=apiserver.kubeconfig, namespace=namespace)
    client.apply(a_service(replicas=2))
    with Client(access, field_manager="team-b") as other:
        with pytest.raises(ConflictError, match="windlass-console"):
            other.apply({"metadata": {"name": "qwen"}, "spec": {"replicas": 5}})
        assert other.apply({"metadata": {"name": "qwen"}, "spec": {"replicas": 5}}, force=True).spec.replicas == 5
    assert client.get("qwen").spec.model.id == "Qwen2-7B-Instruct"


def test_a_change_to_a_version_that_is_gone_is_a_conflict(client):
    """Two consoles that read the same service: the second is told."""
    read = client.create(a_service())
    client.patch("qwen", {"spec": {"replicas": 2}}, resource_version=read.metadata.resource_version)
    with pytest.raises(ConflictError, match="modified"):
        client.patch("qwen", {"spec": {"replicas": 3}}, resource_version=read.metadata.resource_version)


REFUSED = {
    "a rule of ours": (a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"}),
        "ifq_nf4 runs in float16 only", "spec.engine"),
    "a number out of bounds": (a_service(replicas=-1), "spec.replicas.*greater than or equal to 0", "spec.replicas"),
    "a misspelt field": (a_service(replica=2), 'unknown field "spec.replica"', None),
    "two sources": ({"metadata": {"name": "a"}, "spec": {"model": {"id": "m", "source": {
        "pvc": {"claimName": "a"}, "hostPath": {"path": "/a"}}}}}, "exactly one of pvc", "spec.model.source"),
}  # fmt: skip


@pytest.mark.parametrize(("service", "words", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses_is_reported_in_its_own_sentences(client, service, words, field):
    """One sentence, and a row for each field that a form can mark."""
    with pytest.raises(InvalidError, match=words) as caught:
        client.create(service, dry_run=True)
    assert "\n" not in str(caught.value)
    if field:
        assert field in [row.field for row in caught.value.problems]


UNTYPED = {
    "a misspelt field": ({"replica": 2}, "spec.replica", "there is no such field; did you mean replicas?"),
    "a misspelt field within": (
        {"engine": {"maxModelLenn": 1}},
        "spec.engine.maxModelLenn",
        "did you mean maxModelLen?",
    ),
    "text for a number": ({"replicas": "2"}, "spec.replicas", "expected numeric"),
    "a list for a mapping": ({"engine": []}, "spec.engine", "takes fields of its own, not "),
    "a name twice": ({"env": [{"name": "A"}, {"name": "A"}]}, "spec.env", "duplicate entries for key"),
}


@pytest.mark.parametrize(("spec", "field", "words"), UNTYPED.values(), ids=UNTYPED.keys())
def test_a_refused_apply_names_the_field_and_is_not_tried_again(client, spec, field, words):
    """The API server answers these with 500, as if it were at fault."""
    with pytest.raises(InvalidError, match=words) as caught:
        client.apply(a_service(**spec), dry_run=True)
    assert [row.field for row in caught.value.problems] == [field]
    assert "try again" not in str(caught.value)


def test_a_field_that_is_null_is_applied_as_one_that_is_not_given(client):
    assert client.apply(a_service(engine={"dtype": None}), dry_run=True).spec.engine.dtype is None


def test_each_refusal_has_its_own_error(client, apiserver, bare_apiserver, namespace):
    """A caller tells them apart by type; the text names the service and the right that lacks."""
    client.create(a_service())
    with pytest.raises(AlreadyExistsError, match='"qwen" already exists'):
        client.create(a_service())
    with pytest.raises(NotFoundError, match='namespaces "nowhere" not found'):
        client.create(a_service(), "nowhere")
    bad = token_access(apiserver.url, "not-a-token", ca_file=apiserver.ca_file)
    with Client(bad) as stranger, pytest.raises(UnauthorizedError):
        stranger.list()
    token = (
        apiserver.kubectl("-n", namespace, "create", "serviceaccount", "nobody")
        and apiserver.kubectl("-n", namespace, "create", "token", "nobody").stdout.strip()
    )
    weak = token_access(apiserver.url, token, ca_file=apiserver.ca_file, namespace=namespace)
    with Client(weak) as nobody, pytest.raises(ForbiddenError, match='cannot list resource "llmservices"'):
        nobody.list()
    with (
        Client(token_access("http://127.0.0.1:9", "t")) as lost,
        pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9"),
    ):
        lost.list()


def test_a_cluster_without_the_crd_says_what_to_install(client, monkeypatch):
    """An API group that nobody serves is answered in plain text."""
    monkeypatch.setattr("windlass_client.paths.GROUP", "serving.nowhere.dev")
    with pytest.raises(NotInstalledError, match=r"crds\.enabled"):
        client.list()


async def test_a_watch_tells_every_change_and_survives_a_version_that_is_gone(aclient, monkeypatch):
    """ADDED, MODIFIED, DELETED; after 410 it lists again and tells what happened meanwhile, deletions too."""
    monkeypatch.setattr(watching, "PAUSE_FIRST_S", 0.05)
    await aclient.create(a_service("a"))
    await aclient.create(a_service("b"))
    stream, real = aclient.watch(), watching._stream
    seen = [await asyncio.wait_for(anext(stream), 30) for _ in range(2)]
    assert [(event.type, event.service.metadata.name) for event in seen] == [("ADDED", "a"), ("ADDED", "b")]
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    await aclient.scale("a", 4)
    event = await asyncio.wait_for(waiting, 30)
    assert (event.type, event.service.spec.replicas) == ("MODIFIED", 4)

    asked, gone = [], []

    async def expired_once(api, what, version):
        asked.append(version)
        try:
            async for row in real(api, what, "1" if len(asked) == 1 else version):
                yield row
        except ExpiredError as error:
            gone.append(str(error))
            raise

    monkeypatch.setattr(watching, "_stream", expired_once)
    other = aclient.watch()
    await anext(other), await anext(other)
    waiting = asyncio.create_task(anext(other))
    await aclient.delete("b")
    event = await asyncio.wait_for(waiting, 30)
    assert (event.type, event.service.metadata.name) == ("DELETED", "b")
    assert "too old resource version" in gone[0]
    await stream.aclose(), await other.aclose(), await aclient.aclose()


def test_the_blocking_watch_ends_with_its_loop(client):
    """Leaving the loop closes the stream; the client goes on working."""
    client.create(a_service())
    for event in client.watch(name="qwen"):
        assert event.service.metadata.name == "qwen"
        break
    assert client.get("qwen")


def test_a_list_comes_in_pages(client, monkeypatch):
    """More services than a page holds are all there, by name."""
    monkeypatch.setattr(watching, "PAGE", 2)
    for number in range(5):
        client.create(a_service(f"s{number}"))
    assert [one.metadata.name for one in client.list()] == [f"s{number}" for number in range(5)]


def test_events_and_pods_are_typed(client, apiserver, namespace):
    """Events about the service and about its pods, oldest first."""
    uid = client.create(a_service()).metadata.uid
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "server"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "qwen-1", "labels": labels},
           "spec": {"containers": [{"name": "server", "image": "i"}]}}  # fmt: skip
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(pod))
    for number, (kind, name) in enumerate((("LLMService", "qwen"), ("Pod", "qwen-1"), ("Pod", "other"))):
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{number}", "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": kind, "name": name, "namespace": namespace, "uid": uid},
            "type": "Warning", "reason": "Planned", "message": f"about {name}", "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
        }  # fmt: skip
        apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(event))
    assert [(row.object, row.message, row.count) for row in client.events("qwen")] == [
        ("LLMService/qwen", "about qwen", 2),
        ("Pod/qwen-1", "about qwen-1", 2),
    ]
    assert [row.object for row in client.events("qwen", with_pods=False)] == ["LLMService/qwen"]
    found = client.pods("qwen")
    assert [(one.name, one.phase, one.ready, one.containers) for one in found] == [
        ("qwen-1", "Pending", False, ("server",))
    ]
    with pytest.raises(NoLogsError):
        list(client.logs("qwen"))
    with pytest.raises(NoLogsError, match="has no pods"):
        list(client.logs("nobody"))


def test_a_plan_is_previewed_on_the_live_nodes_before_anything_is_applied(client, gpu_node, tmp_path):
    """From the content of a config.json, from a file, and with a refusal that says what to do."""
    seen = client.preview(a_service(), model=CONFIG)
    assert seen.fits
    assert (seen.plan.gpus, seen.plan.gpu_type, seen.plan.max_model_len) == (1, "L20", 8192)
    assert [node.node for node in seen.inventory.nodes] == [gpu_node]
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert client.preview(a_service(), model=tmp_path).plan == seen.plan
    refused = client.preview(a_service(resources={"gpuType": "H100"}), model=CONFIG)
    assert (refused.fits, refused.reason) == (False, "GpuTypeNotFound")
    assert "spec.resources.gpuType" in refused.remedy
    with pytest.raises(NoFactsError, match="does not exist yet"):
        client.preview(a_service())
    with pytest.raises(NoFactsError, match=r"cannot be read as a model's config\.json"):
        client.preview(a_service(), model=tmp_path / "nothing")
    with pytest.raises(InvalidError, match=r"spec\.replicas: .*integer"):
        client.preview(a_service(replicas="many"), model=CONFIG)
    assert client.list() == []


def test_a_preview_takes_the_facts_of_the_existing_service(client, apiserver, namespace, gpu_node):
    """A changed spec of a running service needs no config.json: the operator has looked at the model."""
    client.create(a_service())
    with pytest.raises(NoFactsError, match="ModelReady"):
        client.preview(a_service())
    report = json.dumps({"ok": True, "facts": from_config(CONFIG).to_dict()})
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "inspect"}
    spec = {"restartPolicy": "Never", "containers": [{"name": "inspect", "image": "i"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job",
           "metadata": {"name": "qwen-inspect", "labels": labels, "annotations": {RESULT_ANNOTATION: report}},
           "spec": {"template": {"spec": spec}}}  # fmt: skip
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(job))
    assert client.preview(a_service(engine={"maxModelLen": 1024})).plan.max_model_len == 1024
    assert client.preview(a_service()).in_force is False
    other = {"pvc": {"claimName": "models", "path": "another"}}
    with pytest.raises(NoFactsError, match="another source"):
        client.preview({"metadata": {"name": "qwen"}, "spec": {"model": {"id": "m", "source": other}}})


def test_a_preview_takes_the_facts_that_the_service_object_keeps(client, apiserver, namespace, gpu_node):
    """Of the Job that is there; what an earlier Job found is of another source."""
    client.create(a_service())
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "inspect"}
    spec = {"restartPolicy": "Never", "containers": [{"name": "inspect", "image": "i"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "qwen-inspect", "labels": labels},
           "spec": {"template": {"spec": spec}}}  # fmt: skip
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(job))
    live = json.loads(apiserver.kubectl("-n", namespace, "get", "job", "qwen-inspect", "-o", "json").stdout)

    def keep(uid):
        report = json.dumps({"ok": True, "facts": from_config(CONFIG).to_dict()})
        front = {"apiVersion": "v1", "kind": "Service",
                 "metadata": {"name": "qwen", "annotations": {RESULT_ANNOTATION: report, JOB_ANNOTATION: uid}},
                 "spec": {"ports": [{"port": 8501}]}}  # fmt: skip
        apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(front))

    keep("of-an-earlier-job")
    with pytest.raises(NoFactsError, match="ModelReady"):
        client.preview(a_service())
    keep(live["metadata"]["uid"])
    assert client.preview(a_service(engine={"maxModelLen": 1024})).plan.max_model_len == 1024


def test_the_client_is_part_of_the_installed_package():
    """What the docs import is there, and typed."""
    assert (Path(client_module.__file__).parent / "py.typed").exists()


SNIPPETS = (Path(__file__).parents[2] / "docs" / "how-to" / "console.md").read_text().split("```python\n")[1:]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=map(str, range(1, len(SNIPPETS) + 1)))
def test_what_the_docs_show_runs(apiserver, monkeypatch, snippet):
    """Every Python block of docs/how-to/console.md, as it stands."""
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    exec(compile(snippet.split("```")[0], "console.md", "exec"), {})  # noqa: S102 - our own docs
