"""One operator after another on a real API server: its defaults and its server-side apply must not replace a pod."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_api.crd.status import OLDER_FIGURES
from windlass_api.crd.v1alpha1 import API_VERSION
from windlass_api.plan.record import PLAN_ANNOTATION, recorded_plan
from windlass_operator.reconcile.earlier import RENDERED_ANNOTATION
from windlass_operator.settings import Settings

sys.path.insert(0, str(Path(__file__).parent))

from operator_thread import operating
from test_operator import FOUND, Bed, on_cpu, operator_kubeconfig, planned

__all__ = ["operator_kubeconfig"]

pytestmark = pytest.mark.apiserver
RESTARTED = "serving.windlass.dev/restartedAt"


@contextmanager
def release(bed: Bed, version: str) -> Iterator[None]:
    """This release's operator, whose chart names its own serving image."""
    image = f"windlass/operator:{version}"
    with operating(
        Settings("windlass/server", version, image, watch_namespaces=(bed.namespace,), metrics_port=0, health_port=0)
    ):
        yield


@pytest.fixture
def bed(apiserver, namespace, operator_kubeconfig, monkeypatch) -> Bed:
    """A namespace without an operator, and the rights of one."""
    monkeypatch.setenv("KUBECONFIG", str(operator_kubeconfig))
    return Bed(apiserver, namespace)


def template(bed: Bed) -> dict:
    """What the Deployment's pods are made from, as it is stored: another one replaces them."""
    return bed.get("deployment", "qwen")["spec"]["template"]


def image(bed: Bed) -> str:
    return template(bed)["spec"]["containers"][0]["image"]


def looked_at(bed: Bed, image: str) -> None:
    """The newer operator looks at the model with its own image, once the Job of the older one is gone."""
    jobs = lambda: [row["spec"]["template"]["spec"]["containers"][0]["image"] for row in bed.items("jobs")]  # noqa: E731
    bed.until(lambda: jobs() == [image], "an inspect Job of the newer operator")
    bed.answer_inspection(FOUND)


def forget(bed: Bed) -> None:
    """What 0.1.0 left: no memory, and a plan under digests of its own."""
    bed.kubectl("annotate", "deployment/qwen", f"{RENDERED_ANNOTATION}-")
    record = recorded_plan(bed.get("service", "qwen")["metadata"]["annotations"][PLAN_ANNOTATION])
    assert record is not None
    text = replace(record, digest="of-0-1-0", pods="of-0-1-0").to_text()
    bed.kubectl("annotate", "--overwrite", "service/qwen", f"{PLAN_ANNOTATION}={text}")
    status = bed.get("llm", "qwen")["status"]
    names = {name: older for older, name in OLDER_FIGURES.items()}
    status["plan"] = {names.get(name, name): value for name, value in status["plan"].items()}
    whole = {"apiVersion": API_VERSION, "kind": "LLMService", "metadata": {"name": "qwen"}, "status": status}
    bed.kubectl("apply", "--server-side", "--subresource=status", "--field-manager=windlass", "-f", "-",
                stdin=json.dumps(whole))  # fmt: skip
    assert set(OLDER_FIGURES) & bed.get("llm", "qwen")["status"]["plan"].keys()


def figures(bed: Bed) -> set[str]:
    """The names of the plan's memory figures, as they are stored."""
    return {name for name in bed.get("llm", "qwen")["status"]["plan"] if name.lower().endswith("gib")}


@pytest.mark.parametrize("first", [False, True], ids=["the last release", "0.1.0"])
def test_an_upgrade_leaves_the_pods_and_the_annotation_replaces_them(bed, first):
    """The stored template is the same until the service is told to restart; a foreign edit is put back."""
    with release(bed, "1.2"):
        planned(bed, on_cpu(license={"required": True}))
        bed.until(lambda: bed.condition("qwen", "Ready").get("reason"), "a word of Ready")
    if first:
        forget(bed)
    before = template(bed)
    with release(bed, "1.3"):
        looked_at(bed, "windlass/operator:1.3")
        row = bed.until_reason("qwen", "Outdated", "RenderedEarlier")
        assert "windlass/server:1.2" in row["message"]
        assert template(bed) == before
        assert figures(bed) == {"weightsGib", "kvCacheGib", "requiredGib", "seedRequiredGib"}
        edit = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "elsewhere"}]
        bed.kubectl("patch", "deployment/qwen", "--type=json", "-p", json.dumps(edit))
        bed.until(lambda: template(bed) == before, "the edit put back")
        bed.kubectl("annotate", "llm/qwen", f"{RESTARTED}=1")
        bed.until(lambda: image(bed) == "windlass/server:1.3", "today's template")
        bed.until(lambda: not bed.condition("qwen", "Outdated"), "the condition gone")


def test_a_scale_between_two_operators_leaves_the_pods(bed):
    """It makes another generation, and what the spec asks of the pods is the same."""
    with release(bed, "1.2"):
        planned(bed, on_cpu())
        bed.until(lambda: bed.condition("qwen", "Ready").get("reason"), "a word of Ready")
    before = template(bed)
    bed.kubectl("scale", "llm/qwen", "--replicas=2")
    with release(bed, "1.3"):
        looked_at(bed, "windlass/operator:1.3")
        bed.until_reason("qwen", "Outdated", "RenderedEarlier")
        assert bed.get("deployment", "qwen")["spec"]["replicas"] == 2
        assert template(bed) == before
