"""A reconcile is one trace: the operator as a process, a real API server, and a receiver of OTLP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from windlass_testbed.trace_receiver import read, receiving
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver

SECRET = "sk-not-for-collectors"
SERVICE = {
    "apiVersion": "serving.windlass.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "traced"},
    "spec": {
        "model": {"id": "qwen", "source": {"pvc": {"claimName": "models", "path": "qwen"}}},
        "license": {"required": False},
        "env": [{"name": "HF_TOKEN", "value": SECRET}],
    },
}


@pytest.fixture
def spans(apiserver: Any, namespace: str, tmp_path: Path) -> Iterator[Any]:
    """What the receiver has of an operator that watches the namespace."""
    out = tmp_path / "spans.jsonl"
    with receiving(out) as endpoint:
        env = {
            **os.environ,
            "KUBECONFIG": str(apiserver.kubeconfig),
            "WINDLASS_SERVER_IMAGE": "windlass/server",
            "WINDLASS_SERVER_VERSION": "1.2",
            "WINDLASS_OPERATOR_IMAGE": "windlass/operator:1.2",
            "WINDLASS_METRICS_PORT": "0",
            "WINDLASS_HEALTH_PORT": "0",
            "WINDLASS_WATCH_NAMESPACE": namespace,
            "WINDLASS_OPERATOR_TRACES_ENDPOINT": endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with (tmp_path / "operator.log").open("wb") as log:
            command = [sys.executable, "-m", "windlass_operator", "run"]
            running = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
            try:
                yield lambda: read(out)
            finally:
                running.terminate()
                running.wait(HANG_S)


def until(look: Any) -> Any:
    """The first thing that the look finds."""
    return wait_until(look, "the span")


def test_a_reconcile_is_a_trace_of_stages_and_writes(apiserver: Any, namespace: str, spans: Any) -> None:
    """The write of the inspect Job lies inside its stage, the stage inside the reconcile of its service."""
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(SERVICE))

    def job_made() -> dict[str, Any] | None:
        """The span of the write, once its reconcile has ended and come too."""
        rows = {row["id"]: row for row in spans()}
        writes = [row for row in rows.values() if row["name"] == "apply Job"]
        return next(({"write": one, "rows": rows} for one in writes if _root(rows, one)), None)

    found = until(job_made)
    rows, write = found["rows"], found["write"]
    stage, root = rows[write["parent"]], _root(rows, write)
    assert (stage["name"], stage["parent"]) == ("inspect", root["id"])
    assert (root["name"], root["service"]) == ("reconcile", "windlass-operator")
    assert root["attributes"] == {"windlass.namespace": namespace, "windlass.service": "traced"}
    assert write["attributes"]["windlass.namespace"] == namespace
    inside = {row["name"] for row in rows.values() if row["trace"] == root["trace"]}
    assert {"read", "download", "inspect", "observe", "status LLMService"} <= inside
    assert SECRET not in json.dumps(list(rows.values()))


def _root(rows: dict[str, Any], row: dict[str, Any]) -> dict[str, Any] | None:
    while row["parent"]:
        if row["parent"] not in rows:
            return None
        row = rows[row["parent"]]
    return row
