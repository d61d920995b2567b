"""The example console back end of examples/console, over HTTP, against a real API server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

pytestmark = pytest.mark.apiserver

FOLDER = Path(__file__).parents[2] / "examples" / "console"
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


def a_service(name: str = "qwen", **spec: object) -> dict[str, object]:
    model = {"id": "Qwen2-7B-Instruct", "source": {"pvc": {"claimName": "models", "path": "qwen2-7b"}}}
    return {"metadata": {"name": name}, "spec": {"model": model, **spec}}


@pytest.fixture(scope="session")
def console(apiserver, tmp_path_factory):
    """The example in a process of its own, as its docs start it."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    log = tmp_path_factory.mktemp("console") / "log"
    command = [sys.executable, "-m", "uvicorn", "app:app", "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "KUBECONFIG": str(_kubeconfig(apiserver, log.with_name("kubeconfig")))}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=FOLDER, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as http:
            deadline = time.monotonic() + 90
            while not _answers(http):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield http
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _kubeconfig(apiserver, file: Path) -> Path:
    """The rights of examples/console/rbac.yaml, and no others."""
    apiserver.kubectl("apply", "-f", str(FOLDER / "rbac.yaml"))
    config = json.loads(apiserver.kubeconfig.read_text())
    token = apiserver.kubectl("create", "token", "windlass-console", "-n", "default").stdout.strip()
    file.write_text(json.dumps({**config, "users": [{"name": "admin", "user": {"token": token}}]}))
    return file


def _answers(http: httpx2.Client) -> bool:
    try:
        return http.get("/api/schema").is_success
    except httpx2.TransportError:
        return False


@pytest.fixture
def path(namespace) -> str:
    return f"/api/namespaces/{namespace}/services"


def test_a_service_from_form_to_deletion(console, path):
    """Create, read, change, scale, delete; the answers are the resource's own words."""
    made = console.post(path, json=a_service())
    assert (made.status_code, made.json()["spec"]["replicas"]) == (201, 1)
    assert [one["metadata"]["name"] for one in console.get(path).json()] == ["qwen"]
    changed = console.patch(f"{path}/qwen", json={"spec": {"engine": {"maxModelLen": 4096}}})
    assert changed.json()["spec"]["engine"]["maxModelLen"] == 4096
    assert console.put(f"{path}/qwen/replicas", params={"replicas": 3}).is_success
    assert console.get(f"{path}/qwen").json()["spec"]["replicas"] == 3
    assert console.delete(f"{path}/qwen").status_code == 204
    gone = console.get(f"{path}/qwen")
    assert (gone.status_code, "not found" in gone.json()["error"]) == (404, True)


def test_a_refusal_marks_the_fields_of_the_form(console, path):
    """The API server's own sentence, and where it belongs."""
    answer = console.post(path, json=a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"}))
    assert answer.status_code == 422
    assert "ifq_nf4 runs in float16 only" in answer.json()["error"]
    assert answer.json()["fields"][0]["field"] == "spec.engine"
    console.post(path, json=a_service())
    assert console.post(path, json=a_service()).status_code == 409


def test_a_plan_is_shown_before_anything_is_created(console, path):
    """On the CPU, as this API server has no GPU nodes; and the refusal that says so."""
    body = {"service": a_service(resources={"gpus": 0}), "config": CONFIG}
    assert console.post(f"{path}:plan", json=body).json()["plan"]["gpus"] == 0
    refused = console.post(f"{path}:plan", json={"service": a_service(), "config": CONFIG}).json()
    assert (refused["fits"], refused["reason"]) == (False, "NoGpuNodes")
    assert console.get(path).json() == []


def test_changes_come_as_server_sent_events(console, path):
    """What is there, then what happens."""
    console.post(path, json=a_service())
    with console.stream("GET", f"{path}:watch") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = (line for line in answer.iter_lines() if line and not line.startswith(":"))
        assert next(lines) == "event: ADDED"
        assert json.loads(next(lines).removeprefix("data: "))["metadata"]["name"] == "qwen"
        console.put(f"{path}/qwen/replicas", params={"replicas": 2})
        assert next(lines) == "event: MODIFIED"
        assert json.loads(next(lines).removeprefix("data: "))["spec"]["replicas"] == 2
