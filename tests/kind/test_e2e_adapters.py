"""A directory that is an adapter, on a real cluster: served by name, merged, and refused without its base."""

import json
import sys
import urllib.request
from pathlib import Path

import pytest
from windlass_testbed import cluster, deploy
from windlass_testbed.forward import forward

sys.path.insert(0, str(Path(__file__).parent))

import tiny_adapter

FOLDER = "adapters-as-training-leaves-them"
PROMPTS = ("What does os.path.join do?", "def add(a, b):")
SERVED = {
    "license": {"required": False},
    "engine": {"dtype": "float32", "maxModelLen": 512},
    "resources": {"gpus": 1, "cpu": "300m", "memory": "2Gi"},
}


def source(path):
    return {"pvc": {"claimName": "models", "path": path}}


@pytest.fixture(scope="module")
def adapters(bed):
    """`sql` names its base as a hub does, and the base lies on the volume; the base of `lost` does not."""
    folder = cluster.models_folder(bed.paths)
    for name, base in (("sql", f"someone/{deploy.MODEL}"), ("lost", "/opt/nowhere/qwen")):
        tiny_adapter.make(folder / FOLDER / name, folder / deploy.MODEL, base)
    return FOLDER


@pytest.fixture(scope="module")
def services(bed, namespace, adapters):
    """One by name, one merged; they start together."""
    bed.apply(namespace, "by-name", model={"id": "sql", "source": source(f"{adapters}/sql")}, **SERVED)
    model = {"id": "sql", "merge": True, "source": source(f"{adapters}/sql"), "base": source(deploy.MODEL)}
    bed.apply(namespace, "merged", model=model, **SERVED)
    for name in ("by-name", "merged"):
        bed.ready(namespace, name)
    print(bed.kubectl("-n", namespace, "get", "llm"))


def ask(url, path, **body):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{url}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def answers(url, model):
    fields = {"model": model, "max_tokens": 16, "temperature": 0, "return_token_ids": True}
    found = [ask(url, "/v1/completions", prompt=prompt, **fields) for prompt in PROMPTS]
    return [answer["choices"][0]["token_ids"] for answer in found]


@pytest.fixture(scope="module")
def by_name(bed, namespace, services):
    with forward(bed.paths, namespace, "svc/by-name", 8501) as url:
        names = [row["id"] for row in ask(url, "/v1/models")["data"]]
        return {name: answers(url, name) for name in names}


def test_the_adapter_and_its_base_go_by_their_names(by_name):
    """The service's name means the adapter; the base keeps its directory's name and answers otherwise."""
    assert set(by_name) == {deploy.MODEL, "sql"}
    assert by_name["sql"] != by_name[deploy.MODEL]


def test_merged_it_answers_the_same(bed, namespace, services, by_name):
    with forward(bed.paths, namespace, "svc/merged", 8501) as url:
        assert [row["id"] for row in ask(url, "/v1/models")["data"]] == ["sql"]
        assert answers(url, "sql") == by_name["sql"]


def test_the_plan_counts_the_adapter_by_name_only(bed, namespace, services):
    said = {name: bed.get(namespace, "llm", name)["status"]["plan"]["because"] for name in ("by-name", "merged")}
    assert any("for 1 LoRA adapter: 1 place of rank 8" in line for line in said["by-name"]), said
    assert "the adapter is merged into the weights at the start" in said["merged"]


def test_the_status_names_the_base_that_was_found(bed, namespace, services):
    found = bed.condition(namespace, "by-name", "ModelReady")
    assert f"base of the adapter at {deploy.MODEL}" in found["message"]


def test_a_missing_base_takes_no_gpu(bed, namespace, adapters):
    bed.apply(namespace, "lost", model={"id": "lost", "source": source(f"{adapters}/lost")}, **SERVED)
    ready = bed.reason(namespace, "lost", "BaseMissing")
    print(bed.kubectl("-n", namespace, "get", "llm", "lost"))
    assert '"/opt/nowhere/qwen"' in ready["message"]
    assert f"{deploy.MODEL}" in ready["message"]
    pods = "serving.windlass.dev/service=lost,app.kubernetes.io/component=server"
    assert not bed.items(namespace, "pods", "-l", pods)
