"""An operator beside the CRD of another release, on a real API server: it says so, and its services go on."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from windlass_operator.runtime import metrics, run
from windlass_operator.settings import Settings

sys.path.insert(0, str(Path(__file__).parent))

from operator_thread import operating
from test_operator import Bed, on_cpu, operator_kubeconfig, planned

__all__ = ["operator_kubeconfig"]

pytestmark = pytest.mark.apiserver
CRD = "crd/llmservices.serving.windlass.dev"
SCHEMA = "/spec/versions/0/schema/openAPIV3Schema/properties"
OLDER = [{"op": "remove", "path": f"{SCHEMA}/status/properties/{name}"} for name in ("servedGeneration", "ready")]
LATER = {"type": "string", "description": "later is a field of a later release."}
NEWER = [{"op": "add", "path": f"{SCHEMA}/spec/properties/engine/properties/later", "value": LATER}]


@pytest.fixture
def bed(apiserver, namespace, operator_kubeconfig, monkeypatch) -> Bed:
    """A namespace without an operator, and the rights of one, which may not read CRDs."""
    monkeypatch.setenv("KUBECONFIG", str(operator_kubeconfig))
    monkeypatch.setattr(run, "SCHEMA_AGAIN_S", 0.5)
    return Bed(apiserver, namespace)


@dataclass
class Crd:
    """The CRD of the API server, which other tests use after this one."""

    bed: Bed
    whole: dict

    def change(self, rows: list[dict]) -> None:
        self.bed.kubectl("patch", CRD, "--type=json", "-p", json.dumps(rows))

    def restore(self) -> None:
        self.bed.kubectl("replace", "-f", "-", stdin=json.dumps(self.whole))


@pytest.fixture
def crd(bed: Bed) -> Iterator[Crd]:
    """It is again what it was at the end."""
    whole = json.loads(bed.kubectl("get", CRD, "-o", "json"))
    del whole["metadata"]["resourceVersion"]
    found = Crd(bed, whole)
    yield found
    found.restore()


@contextmanager
def an_operator(bed: Bed) -> Iterator[None]:
    settings = Settings("windlass/server", "1.2", "windlass/operator:1.2", watch_namespaces=(bed.namespace,),
                        metrics_port=0, health_port=0)  # fmt: skip
    with operating(settings):
        yield


def fields(of: str) -> float:
    return next(row.value for row in metrics.CRD_FIELDS.labels(of).collect()[0].samples)


def test_an_older_crd_is_named_and_services_go_on(bed, crd, caplog) -> None:
    """The API server would refuse the whole status for one field that the CRD lacks."""
    with caplog.at_level(logging.INFO), an_operator(bed):
        assert fields("missing") == 0
        crd.change(OLDER)
        bed.until(lambda: fields("missing") == len(OLDER), "the mismatch")
        planned(bed, on_cpu())
        bed.until(lambda: bed.condition("qwen", "Ready").get("reason"), "a status")
        assert "servedGeneration" not in bed.get("llm/qwen")["status"]
        crd.restore()
        bed.until(lambda: fields("missing") == 0, "the end of the mismatch")
        bed.patch("llm/qwen", {"spec": {"replicas": 2}})
        bed.until(lambda: bed.get("llm/qwen")["status"].get("servedGeneration") == 2, "the whole status")
    words = [row.getMessage() for row in caplog.records if "CRDMismatch" in row.getMessage()]
    assert "older than this operator: it lacks status.ready, status.servedGeneration" in words[0]
    assert words[1].endswith("the CRD is that of this operator now")


def test_a_newer_crd_is_named_and_services_go_on(bed, crd, caplog) -> None:
    """The field is kept by the API server and has no effect."""
    crd.change(NEWER)
    with caplog.at_level(logging.INFO), an_operator(bed):
        bed.until(lambda: fields("unknown") == 1, "the mismatch")
        planned(bed, {**on_cpu(), "spec": {**on_cpu()["spec"], "engine": {"later": "x"}}})
        bed.until(lambda: bed.condition("qwen", "Ready").get("reason"), "a status")
        assert bed.get("llm/qwen")["spec"]["engine"]["later"] == "x"
    words = next(row.getMessage() for row in caplog.records if "CRDMismatch" in row.getMessage())
    assert "newer than this operator: spec.engine.later have no effect; upgrade the operator" in words
