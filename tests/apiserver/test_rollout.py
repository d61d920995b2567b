"""A rollout as kubectl shows it and waits for it, on a real API server; the test counts pods as controllers do."""

from __future__ import annotations

import pytest

from . import test_operator as at_work
from .test_operator import on_cpu, planned

pytestmark = pytest.mark.apiserver
bed, operator_kubeconfig = at_work.bed, at_work.operator_kubeconfig


def test_a_wait_for_ready_ends_when_the_present_spec_serves(bed, apiserver):
    """While pods of the spec before serve, Ready stays True and the listing shows them; `kubectl wait` goes on."""
    planned(bed, on_cpu())
    serve = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    wait = ("wait", "-n", bed.namespace, "llm/qwen", "--for=condition=Ready")

    def counts(generation: int, **changes: int) -> None:
        status = {"observedGeneration": generation, **serve, **changes}
        bed.patch("deployment/qwen", {"status": status}, "--subresource=status")

    def shown() -> list[str]:
        row = bed.kubectl("get", "llm", "qwen", "-o", "wide", "--no-headers").split()
        return [*row[2:5], row[8]]  # READY, UP-TO-DATE, STATUS, CONTEXT

    counts(1)
    bed.until(lambda: shown() == ["1/1", "1", "Running", "2048"], "a service that serves")
    apiserver.kubectl(*wait, "--timeout=120s")
    bed.patch("llm/qwen", {"spec": {"engine": {"maxModelLen": 1024}}})
    bed.until(lambda: bed.get("deployment", "qwen")["metadata"]["generation"] == 2, "the rollout")
    counts(2, replicas=2)
    bed.until(lambda: shown() == ["1/1", "1", "RollingOut", "2048"], "a rollout in the listing")
    ready = bed.condition("qwen", "Ready")
    assert (ready["status"], ready["observedGeneration"]) == ("True", 1)
    assert "pods of the earlier revision: 1, of the new one: 1" in ready["message"]
    assert "timed out" in apiserver.kubectl(*wait, "--timeout=1s", check=False).stderr
    counts(2)
    apiserver.kubectl(*wait, "--timeout=120s")
    assert shown() == ["1/1", "1", "Running", "1024"]
