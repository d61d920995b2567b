"""Pods behind the API server's proxy, asked by the console with the user's token: metrics, chat, license servers.

The API server dials no loopback address, so the pods answer at an address of a documentation network on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver

ADDRESS = f"198.51.100.{1 + os.getpid() % 250}"
METRICS = """# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0"} 2.0
vllm:num_requests_running{engine="1"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:generation_tokens_total{engine="0"} 1200.0
vllm:time_to_first_token_seconds_bucket{le="0.1"} 3.0
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4.0
vllm:time_to_first_token_seconds_sum 0.9
vllm:time_to_first_token_seconds_count 4.0
windlass_lookahead_hit_len_total{engine="0"} 30.0
windlass_lookahead_invalid_len_total{engine="0"} 10.0
<script>alert(1)</script> 1
"""
KEY = "sk-right"


class Pod(BaseHTTPRequestHandler):
    """What a serving pod answers: metrics to anybody, chats to a key, and a page that is no answer."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[dict[str, str]]] = []
    forged: ClassVar[bytes] = b""
    code: ClassVar[int] = 401

    def do_GET(self) -> None:
        self.seen.append({key.lower(): value for key, value in self.headers.items()})
        if self.forged:
            self._answer(self.code, self.forged, "application/json")
            return
        self._answer(200, METRICS.encode(), "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.forged:
            self._answer(self.code, self.forged, "application/json")
            return
        self.seen.append({key.lower(): value for key, value in self.headers.items()})
        if self.headers.get("X-API-Key") != KEY:
            self._answer(
                401, json.dumps({"error": {"message": "this server asks for an API key"}}).encode(), "application/json"
            )
        elif not body.get("stream"):
            self._answer(200, b"<html><script>alert(1)</script>", "text/html")
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for piece in ("Hel", "lo"):
                self.wfile.write(f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "spy=1; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """An address that is this machine's for as long as the tests run."""
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    try:
        yield ADDRESS
    finally:
        subprocess.run(["ip", "address", "delete", f"{ADDRESS}/32", "dev", "lo"], check=True)


@pytest.fixture(scope="module")
def pod_server(address) -> Iterator[list[dict[str, str]]]:
    with ThreadingHTTPServer((address, 8501), Pod) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield Pod.seen
        server.shutdown()
        thread.join()


def run_pod(apiserver: Any, namespace: str, address: str, name: str) -> None:
    """A serving pod that the kubelet would call running."""
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "server"}
    container = {"name": "server", "image": "x"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container], "nodeName": "n"},
    }
    assert apiserver.apply(pod).returncode == 0
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    apiserver.kubectl(
        *("patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    )


def publish(apiserver: Any, namespace: str, name: str, address: str, port_name: str, port: int) -> None:
    """A Service and its endpoints, as controllers would make them; the API server dials addresses of pods alone."""
    run_pod(apiserver, namespace, address, f"{name}-0")
    target = {"kind": "Pod", "namespace": namespace, "name": f"{name}-0"}
    meta = {"name": name, "namespace": namespace}
    ports = [{"name": port_name, "port": port, "protocol": "TCP"}]
    for document in (
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports}},
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": meta,
            "subsets": [{"addresses": [{"ip": address, "targetRef": target}], "ports": ports}],
        },
    ):
        done = apiserver.apply(document)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def served(apiserver, editor, at, namespace, address, pod_server) -> str:
    """A service with one running pod; its path."""
    path = f"/api/services/{namespace}"
    assert editor.post(path, json=at.a_service()).status_code == 201
    publish(apiserver, namespace, "qwen", address, "http", 8501)
    return f"{path}/qwen"


def test_metrics_are_reduced_to_what_pages_draw(editor, served):
    """Summed over the pod's engines; lines that are no metric are passed over."""
    answer = editor.get(f"{served}/metrics")
    pod = answer.json()["pods"]["qwen-0"]
    assert (pod["running"], pod["kvUse"], pod["generationTokens"]) == (3.0, 0.25, 1200.0)
    assert (pod["ttftSum"], pod["ttftCount"], pod["ttftBuckets"]) == (0.9, 4.0, [[0.1, 3.0]])
    assert (pod["drafted"], pod["accepted"], pod["promptTokens"]) == (40.0, 30.0, None)
    assert "script" not in answer.text


def test_metrics_need_the_users_own_right(viewer, served):
    """The API server refuses; the page hides its graphs."""
    answer = viewer.get(f"{served}/metrics")
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert "pods/proxy" in answer.json()["error"]


def test_a_chat_streams_as_the_model_answers(editor, served, pod_server):
    """The service's key goes in a header that the API server leaves; the user's token does not reach the pod."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with editor.stream("POST", f"{served}/chat", json=body, headers={"X-Service-Key": KEY}) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lines = [line for line in answer.iter_lines() if line]
    assert [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in lines[:-1]] == ["Hel", "lo"]
    assert lines[-1] == "data: [DONE]"
    assert (pod_server[-1]["x-api-key"], "authorization" in pod_server[-1]) == (KEY, False)
    assert "cookie" not in pod_server[-1]


def test_a_chat_without_a_key_says_what_is_missing(editor, viewer, served):
    refused = editor.post(f"{served}/chat", json={"messages": []})
    assert (refused.status_code, refused.json()["reason"], refused.json()["serviceStatus"]) == (502, "Service", 401)
    assert "asks for one of its API keys" in refused.json()["error"]
    assert viewer.post(f"{served}/chat", json={"messages": []}).status_code == 403


def test_a_pod_cannot_end_a_session_or_follow_a_user(editor, served, pod_server, monkeypatch):
    """It answers in the API server's form, 401; the user stays signed in, and its cookie never comes back."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}
    monkeypatch.setattr(Pod, "forged", json.dumps(status).encode())
    chat = editor.post(f"{served}/chat", json={"messages": []}, headers={"X-Service-Key": KEY})
    assert (chat.status_code, chat.json()["reason"], chat.json()["serviceStatus"]) == (502, "Service", 401)
    metrics = editor.get(f"{served}/metrics")
    assert (metrics.status_code, list(metrics.json()["pods"]["qwen-0"])) == (200, ["problem"])
    assert editor.get("/api/session").status_code == 200
    assert "cookie" not in pod_server[-1]


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (404, "NotFound"), (409, "Conflict"), (422, "Invalid")]
)
def test_a_pod_cannot_take_a_right_or_an_object_away(editor, served, monkeypatch, code, reason):
    """A refusal in the API server's form is the pod's: the user has the right, as the API server's review says."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": code,
        "message": "no",
    }
    monkeypatch.setattr(Pod, "forged", json.dumps(status).encode())
    monkeypatch.setattr(Pod, "code", code)
    chat = editor.post(f"{served}/chat", json={"messages": []}, headers={"X-Service-Key": KEY})
    assert (chat.status_code, chat.json()["reason"], chat.json()["serviceStatus"]) == (502, "Service", code)
    metrics = editor.get(f"{served}/metrics")
    assert (metrics.status_code, list(metrics.json()["pods"]["qwen-0"])) == (200, ["problem"])


def test_a_page_from_a_pod_is_never_a_page_of_the_console(editor, served):
    """Whatever type a pod names, the browser gets JSON that it must not look into."""
    answer = editor.post(f"{served}/chat", json={"messages": []}, headers={"X-Service-Key": KEY})
    assert answer.headers["content-type"].startswith("application/json")
    assert (
        answer.headers["x-content-type-options"],
        "script-src 'self'" in answer.headers["content-security-policy"],
    ) == (
        "nosniff",
        True,
    )


@pytest.fixture
def license_server(apiserver, address, tmp_path) -> Iterator[Path]:
    """A real license server behind a Service of kube-system; the folder of its keys."""
    program = Path(sys.executable).with_name("windlass-license")
    subprocess.run([program, "keygen", "--out", tmp_path / "keys"], check=True, capture_output=True)
    (tmp_path / "token").write_text("s3cret")
    command = [
        *(program, "serve", "--host", address, "--port", "10080", "--data", tmp_path / "data", "--lease-auth", "none"),
        *("--public-key", tmp_path / "keys" / "public.pem", "--admin-token-file", tmp_path / "token"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or _ready(f"http://{address}:10080/readyz"))
        assert process.poll() is None
        publish(apiserver, "kube-system", "windlass-license-server", address, "http", 10080)
        assert apiserver.apply(_deployment()).returncode == 0
        yield tmp_path
    finally:
        process.terminate()
        process.wait(30)
        apiserver.kubectl("delete", "deployment", "windlass-license-server", "-n", "kube-system", check=False)


def _ready(url: str) -> bool:
    try:
        return httpx2.get(url, trust_env=False, timeout=HANG_S).is_success
    except httpx2.TransportError:
        return False


def _deployment() -> dict[str, Any]:
    name = "windlass-license-server"
    labels = {"app.kubernetes.io/name": name}
    variable = {
        "name": "WINDLASS_LICENSE_ADMIN_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "admin", "key": "token"}},
    }
    pod = {"containers": [{"name": "server", "image": "x", "env": [variable]}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def _license(folder: Path) -> bytes:
    (folder / "gpus").write_text("GPU 0: NVIDIA L20 (UUID: GPU-5f5f5f5f-1111-2222-3333-444444444444)\n")
    command = [
        *(Path(sys.executable).with_name("windlass-license"), "issue", "--gpus", folder / "gpus", "--customer", "Acme"),
        *("--appid", "7", "--expires", "2099-01-01T00:00:00+00:00", "--key", folder / "keys" / "private.pem"),
        *("--out", folder / "license.dat"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "license.dat").read_bytes()


def test_a_license_is_uploaded_and_shown(admin, editor, license_server):
    """With the admin token only, which travels in a header that the API server leaves; what is granted to whom."""
    path, file = "/api/licenses/kube-system/windlass-license-server", _license(license_server)
    wrong = admin.post(path, content=file, headers={"X-License-Token": "wrong"})
    assert (wrong.status_code, "refuses the admin token" in wrong.json()["error"]) == (422, True)
    broken = admin.post(path, content=b"picture", headers={"X-License-Token": "s3cret"})
    assert (broken.status_code, "license file refused" in broken.json()["error"]) == (422, True)
    done = admin.post(path, content=file, headers={"X-License-Token": "s3cret"})
    assert (done.status_code, "successfully uploaded" in done.json()["message"]) == (200, True)
    # Tests beside this one have license servers in namespaces of their own.
    (server,) = [one for one in admin.get("/api/licenses").json()["servers"] if one["namespace"] == "kube-system"]
    assert (server["problem"], server["adminToken"], server["leases"]) == ("", True, {"live": 0, "gpus": 0})
    assert (server["license"]["customer"], server["license"]["gpus"], server["license"]["expired"]) == (
        "Acme",
        1,
        False,
    )
    assert [(one["count"], one["uuids"]) for one in server["license"]["grants"]] == [(1, [])]
    assert editor.post(path, content=file, headers={"X-License-Token": "s3cret"}).status_code == 403
