"""The console in a process of its own before a real API server, and users with rights of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from windlass_testbed.waiting import HANG_S, wait_until

CSRF = {"X-Windlass-Console": "1"}
SERVICES = {"apiGroups": ["serving.windlass.dev"], "resources": ["llmservices", "llmservices/scale"]}
READ, WRITE = ["get", "list", "watch"], ["create", "patch", "update", "delete"]
VIEWER = [
    {**SERVICES, "verbs": READ},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": READ},
]
EDITOR = [
    {**SERVICES, "verbs": [*READ, *WRITE]},
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/log", "events", "services", "persistentvolumeclaims"],
        "verbs": READ,
    },
    {"apiGroups": [""], "resources": ["pods/proxy", "services/proxy"], "verbs": ["get", "create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*READ, *WRITE]},
]


@contextmanager
def running_console(apiserver: Any, port: int, log: Path, *options: str) -> Iterator[str]:
    """Its base URL; it has no credential of its own."""
    command = [
        *(sys.executable, "-m", "windlass_console", "--port", str(port), "--insecure-cookie"),
        *("--api-server", apiserver.url, "--ca-file", str(apiserver.ca_file), *options),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={"PATH": "/usr/bin:/bin"})
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), "the console's start")
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(HANG_S)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", trust_env=False, timeout=HANG_S).is_success
    except httpx2.TransportError:
        return False


def a_user(namespace: str, name: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A service account with these rights in its namespace."""
    meta = {"name": name, "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
    ]


def a_token(apiserver: Any, namespace: str, name: str, rules: list[dict[str, Any]]) -> str:
    """The token of a new service account with these rights in its namespace."""
    for document in a_user(namespace, name, rules):
        done = apiserver.apply(document)
        assert done.returncode == 0, done.stderr
    return str(apiserver.kubectl("create", "token", name, "-n", namespace).stdout.strip())


@contextmanager
def signed_in(url: str, token: str) -> Iterator[httpx2.Client]:
    """A browser with the user's cookie."""
    with httpx2.Client(base_url=url, timeout=30, trust_env=False, headers=CSRF) as http:
        answer = http.post("/api/session", json={"token": token})
        assert answer.status_code == 200, answer.text
        yield http


def events(answer: httpx2.Response) -> Iterator[tuple[str, Any]]:
    """The named events of a stream, their data read as JSON."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def a_service(name: str = "qwen", **spec: object) -> dict[str, Any]:
    """A document as the form sends it."""
    model = {"id": "Qwen2-7B-Instruct", "source": {"pvc": {"claimName": "models", "path": "qwen2-7b"}}}
    return {"metadata": {"name": name}, "spec": {"model": model, **spec}}
