"""A crash loop is ended on a real API server: no replicas, known to a new operator, until it is asked to try again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from api_bed import api_bed, load
from fault_bed import Bed, condition
from scripted_faults import THEN, owned, patch, served
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with api_bed(tmp_path) as bed:
        yield bed


def crashing(bed: Bed, restarts: int) -> None:
    """A pod of the present revision that ended for the n-th time."""
    deployment = served(bed, "held")
    template = deployment["spec"]["template"]
    labels = {**template["metadata"]["labels"], "pod-template-hash": "1"}
    meta = {"name": "held-0", "labels": labels, "ownerReferences": owned(bed, deployment)}
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta,
               "spec": {**template["spec"], "nodeName": "n"}})  # fmt: skip
    message = json.dumps({"reason": "BadFlag", "message": "unknown flag --x", "exitCode": 2})
    last = {"exitCode": 2, "message": message, "startedAt": THEN, "finishedAt": THEN}
    row = {"name": "server", "image": "i", "imageID": "", "ready": False, "restartCount": restarts,
           "state": {"waiting": {"reason": "CrashLoopBackOff"}},
           "lastState": {"terminated": last}}  # fmt: skip
    patch(bed, "pod/held-0", {"phase": "Running", "containerStatuses": [row]})
    patch(bed, "deployment/held", {"observedGeneration": 99, "replicas": 1, "updatedReplicas": 1})


def replicas(bed: Bed) -> int:
    return bed.get("deployment", "held")["spec"]["replicas"]


def test_a_held_service_has_no_replicas_until_it_is_asked_again(bed: Bed):
    crashing(bed, restarts=2)
    wait_until(lambda: replicas(bed) == 0, "the end of the crash loop")
    bed.kubectl("-n", bed.namespace, "delete", "pod", "held-0", "--grace-period=0", "--force")
    ready = lambda: condition(bed.get("llm", "held"), "Ready")  # noqa: E731
    wait_until(lambda: ready().get("message", "").startswith("stopped after 2 restarts: "), "the words")
    assert (ready()["reason"], "serving.windlass.dev/retry" in ready()["message"]) == ("BadFlag", True)
    assert bed.get("llm", "held")["status"]["failure"]["count"] == 2
    with load("test_operator").running_operator(bed.namespace):  # another one, which knows nothing yet
        served(bed, "beside")  # its looks come after the first one at the held service
        assert replicas(bed) == 0
    bed.kubectl("-n", bed.namespace, "annotate", "llm", "held", "serving.windlass.dev/retry=1")
    wait_until(lambda: replicas(bed) == 1, "another try")
    wait_until(lambda: ready().get("reason") != "BadFlag", "new words")
