"""Services that the former release planned keep their pods: what it stored stands before this operator.

The objects are those that the former release's operator left on a real API server. A checkout of the next former
release writes them with this test and WINDLASS_GOLDEN=write.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from windlass_api.plan.record import PLAN_ANNOTATION
from windlass_operator.reconcile.earlier import RENDERED_ANNOTATION

sys.path.insert(0, str(Path(__file__).parent))

from test_operator import Bed, a_service, gpu_node, operator_kubeconfig, planned
from test_upgrade import bed, looked_at, release

__all__ = ["bed", "gpu_node", "operator_kubeconfig"]

pytestmark = pytest.mark.apiserver
STORED = Path(__file__).with_name("former_release.json")
SERVICES: dict[str, dict[str, Any]] = {
    "fields": {
        "engine": {
            **{"maxModelLen": 4096, "dtype": "bfloat16", "gpuMemoryUtilizationPercent": 80, "maxNumSeqs": 256},
            **{"maxConcurrency": 16, "seed": 3, "kvCacheDtype": "fp8", "prefixCaching": True, "workers": 2},
        }
    },
    "flags over fields": {
        "engine": {"maxModelLen": 4096, "tensorParallelSize": 1, "maxNumBatchedTokens": 4096},
        "command": ["run", "--max-num-seqs", "8"],
        "args": ["--max-model-len", "2K", "-tp", "2", "--kv-cache-dtype=fp8", "--block-size", "16"],
    },
    "variables over fields": {
        "engine": {"maxModelLen": 4096, "workers": 2, "enforceEager": False, "seed": 3, "schedulerSteps": 8},
        "env": [
            {"name": "MAX_MODEL_LEN", "value": "2048"},
            {"name": "WORKER_NUM", "value": "1"},
            {"name": "ENFORCE_EAGER", "value": "true"},
            {"name": "SEED", "value": "4"},
        ],
    },
    "drafts and prefixes": {
        "engine": {"lookahead": {"enabled": True, "speculativeTokens": 3}, "prefixOffload": {"enabled": True}},
        "args": ["--max-model-len", "auto"],
        "env": [{"name": "MAX_MODEL_LEN", "value": "4K"}, {"name": "PREFIX_OFFLOAD_MIB", "value": "2048"}],
    },
    "the CPU": {
        "resources": {"gpus": 0, "memory": "4096Mi"},
        "engine": {"maxModelLen": 2048, "prefixOffload": {"enabled": True}},
    },
}


@pytest.fixture
def namespace(apiserver, kind) -> str:
    """Namespace of the same name as in the former release's run, since the plan's record digests it."""
    name = f"former-{kind.replace(' ', '-').lower()}"
    apiserver.kubectl("create", "namespace", name)
    return name


def stored(bed: Bed) -> dict[str, Any]:
    """Stored values by which pods are replaced: their template, the operator's memory of it, and the plan."""
    deployment, service = bed.get("deployment", "qwen"), bed.get("service", "qwen")
    return {
        "template": deployment["spec"]["template"],
        "rendered": deployment["metadata"]["annotations"][RENDERED_ANNOTATION],
        "plan": service["metadata"]["annotations"][PLAN_ANNOTATION],
    }


def plan_of(one: dict[str, Any]) -> dict[str, Any]:
    """The plan's record, without the digest of the pods as the newer release would make them."""
    record = json.loads(one["plan"])
    return {name: record[name] for name in ("digest", "plan", "rollout")}


def put(bed: Bed, former: dict[str, Any]) -> None:
    """Store what the former release left in place of what this one made."""
    deployment = bed.get("deployment", "qwen")
    deployment["spec"]["template"] = former["template"]
    deployment["metadata"]["annotations"][RENDERED_ANNOTATION] = former["rendered"]
    bed.kubectl("replace", "-f", "-", stdin=json.dumps(deployment))
    bed.kubectl("annotate", "--overwrite", "service/qwen", f"{PLAN_ANNOTATION}={former['plan']}")


@pytest.mark.parametrize("kind", SERVICES)
def test_a_service_that_the_former_release_planned_keeps_its_pods(bed, gpu_node, kind):
    """The newer operator takes the stored plan for the one in force, and the stored template stays."""
    with release(bed, "1.2"):
        planned(bed, a_service(**SERVICES[kind]))
        bed.until(lambda: bed.condition("qwen", "Ready").get("reason"), "a word of Ready")
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        every = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps({**every, kind: stored(bed)}, indent=1, sort_keys=True) + "\n")
        return
    former = json.loads(STORED.read_text())[kind]
    put(bed, former)
    with release(bed, "1.3"):
        looked_at(bed, "windlass/operator:1.3")
        bed.until_reason("qwen", "Outdated", "RenderedEarlier")
        after = stored(bed)
        assert (after["template"], plan_of(after)) == (former["template"], plan_of(former))
