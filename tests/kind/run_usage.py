"""`make test-usage`: `kubectl windlass usage` on the cluster, of a service with two replicas and two keys.

Each pod is asked through the API server's proxy. The sums are those that the clients received, and they are the same
after every process of a pod was killed with -9 and its container started anew.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import httpx
import pytest
from windlass_testbed.forward import forward

NAME = "billed"
KEYS = {"search": ("sk-search-2026", 9), "batch": ("sk-batch-2026", 5)}
"""The key, and how many requests each replica gets of it."""
DOCUMENT = "keys:\n" + "".join(f"  - {{name: {name}, key: {key}}}\n" for name, (key, _) in KEYS.items())
HTTP_PORT = 8501
FIELDS = ("requests", "tokens_in", "tokens_out")
Usage: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def pods(bed, namespace) -> list[str]:
    """Two pods of the service, both ready."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"keys.yaml": DOCUMENT}}
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(secret))
    bed.apply(namespace, NAME, replicas=2, license={"required": False}, expose={"apiKeysSecretRef": {"name": "keys"}})
    bed.ready(namespace, NAME)
    return serving(bed, namespace)


def serving(bed: Any, namespace: str) -> list[str]:
    """The pods of the service whose containers are ready, once there are two."""

    def ready() -> list[str]:
        rows = bed.items(
            namespace, "pods", "-l", f"serving.windlass.dev/service={NAME},app.kubernetes.io/component=server"
        )
        return [
            row["metadata"]["name"]
            for row in rows
            if "deletionTimestamp" not in row["metadata"]
            and any(one["type"] == "Ready" and one["status"] == "True" for one in row["status"].get("conditions", ()))
        ]

    return bed.wait("two pods that are ready", lambda: len(found := ready()) == 2 and found, 400)


@pytest.fixture(scope="module")
def usage(bed, namespace, tmp_path_factory) -> Usage:
    """Runs `kubectl windlass usage …` as a user does, with a home of its own."""
    home = str(tmp_path_factory.mktemp("home"))
    env = {**os.environ, "HOME": home, "PATH": bed.programs()}

    def run(*words: str, kubeconfig: str = "") -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "windlass", "usage", *words, "-n", namespace]
        done = subprocess.run(
            command,
            env=env | {"KUBECONFIG": kubeconfig or str(bed.paths.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        print(f"\n$ {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done

    return run


@pytest.fixture(scope="module")
def received(bed, namespace, pods) -> Iterator[dict[str, Counter[str]]]:
    """What the answers of both replicas said that each key used."""
    found: dict[str, Counter[str]] = {name: Counter() for name in KEYS}
    for pod in pods:
        with forward(bed.paths, namespace, f"pod/{pod}", HTTP_PORT) as url, httpx.Client(timeout=120) as http:
            for name, (key, requests) in KEYS.items():
                for number in range(requests):
                    counted = ask(http, url, key, f"Request {number}", stream=number % 2 == 1)
                    found[name].update(requests=1, tokens_in=counted[0], tokens_out=counted[1])
    return found


def ask(http: httpx.Client, url: str, key: str, text: str, *, stream: bool) -> tuple[int, int]:
    """One request; the tokens in and out that its answer names."""
    body: dict[str, Any] = {"model": "demo", "max_tokens": 8, "messages": [{"role": "user", "content": text}]}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    answer = http.post(f"{url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    line = next(line for line in reversed(answer.text.splitlines()) if '"usage":{' in line.replace(" ", ""))
    counted = json.loads(line.removeprefix("data: "))["usage"]
    return counted["prompt_tokens"], counted["completion_tokens"]


def by_key(usage: Usage) -> dict[str, dict[str, int]]:
    """The sums as JSON."""
    done = usage(NAME, "-o", "json")
    assert done.returncode == 0, done.stderr
    return {row["key"]: {name: row[name] for name in FIELDS} for row in json.loads(done.stdout)["usage"]}


def test_the_report_is_what_clients_received(usage, received):
    """Of both replicas together, and nothing is estimated."""
    assert by_key(usage) == received
    assert all(row["estimated"] == 0 for row in json.loads(usage(NAME, "-o", "json").stdout)["usage"])


def test_table_and_csv_say_the_same(usage, received):
    """A line for each key; CSV has a heading."""
    table = usage(NAME).stdout.splitlines()
    assert [line.split()[:4] for line in table[1:]] == [
        [NAME, key, "demo", str(received[key]["requests"])] for key in sorted(KEYS)
    ]
    rows = list(csv.DictReader(io.StringIO(usage(NAME, "--by", "hour,key", "--csv").stdout)))
    summed = {key: Counter[str]() for key in KEYS}
    for row in rows:
        summed[row["key"]].update({name: int(row[name]) for name in FIELDS})
    assert summed == received


@pytest.fixture
def reader(bed, namespace, tmp_path) -> str:
    """The kubeconfig of a ServiceAccount that may read everything and use no proxy."""
    bed.kubectl("-n", namespace, "create", "serviceaccount", "reader")
    who = f"--serviceaccount={namespace}:reader"
    bed.kubectl("-n", namespace, "create", "rolebinding", "reader", "--clusterrole=view", who)
    kinds = "--resource=llmservices.serving.windlass.dev"
    bed.kubectl("-n", namespace, "create", "role", "services", "--verb=get,list", kinds)
    bed.kubectl("-n", namespace, "create", "rolebinding", "services", "--role=services", who)
    config = json.loads(bed.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"][0]["user"] = {"token": bed.kubectl("-n", namespace, "create", "token", "reader").strip()}
    file = tmp_path / "reader.json"
    file.write_text(json.dumps(config))
    return str(file)


def test_who_may_not_use_the_proxy_gets_no_figures(usage, received, reader):
    """The rights are the user's own: without `pods/proxy` each pod is named, and the exit code is 1."""
    done = usage(NAME, kubeconfig=reader)
    assert done.returncode == 1
    assert done.stderr.count("is left out or incomplete") == 2, done.stderr
    assert "no usage is recorded" not in done.stderr, "nobody knows that"


def test_records_outlive_a_container_that_is_killed(bed, namespace, pods, usage, received):
    """Its cache is the pod's, so the next container goes on in the same folder."""
    bed.kubectl("-n", namespace, "exec", pods[0], "--", "sh", "-c", "kill -9 -1 || true")

    def restarted() -> bool:
        (status,) = bed.get(namespace, "pod", pods[0])["status"]["containerStatuses"]
        return status["restartCount"] >= 1

    bed.wait("a container that starts anew", restarted, 120)
    serving(bed, namespace)
    assert by_key(usage) == received
