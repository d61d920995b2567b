"""Who holds which node's GPUs: sums that follow every change, and one's own left out when asked."""

from __future__ import annotations

import pytest
from windlass_api.names import SERVICE_LABEL
from windlass_api.objects.claims import Claims, claim_of


def a_pod(name="p", node="n1", gpus="2", phase="Running", service=None):
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    labels = {SERVICE_LABEL: service} if service else {}
    return {
        "metadata": {"name": name, "namespace": "team-a", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"resources": limits}, {}]},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize("pod", [a_pod(gpus=None), a_pod(node=""), a_pod(phase="Succeeded"), a_pod(phase="Failed")])
def test_a_pod_that_holds_nothing_is_not_kept(pod):
    assert claim_of(pod) is None


def test_sums_follow_the_pods():
    claims = Claims()
    claims.put(a_pod("a"))
    claims.put(a_pod("b", gpus="1"))
    claims.put(a_pod("c", node="n2"))
    assert claims.taken() == {"n1": 3, "n2": 2}
    claims.put(a_pod("a"))
    claims.drop(a_pod("c", node="n2"))
    claims.put(a_pod("b", gpus="1", phase="Succeeded"))
    assert claims.taken() == {"n1": 2}


def test_one_s_own_are_left_out():
    claims = Claims()
    claims.put(a_pod("a", service="qwen"))
    claims.put(a_pod("b"))
    assert claims.taken(("team-a", "qwen")) == {"n1": 2}
    assert claims.taken(("team-b", "qwen")) == {"n1": 4}
    claims.drop(a_pod("a"))
    assert claims.taken(("team-a", "qwen")) == {"n1": 2}


def test_a_list_drops_what_it_does_not_name():
    claims = Claims()
    claims.put(a_pod("a"))
    claims.put(a_pod("b", node="n2"))
    claims.keep({("team-a", "b")})
    assert claims.taken() == {"n2": 2}


def test_freed_gpus_are_reported_and_taken_ones_are_not():
    told = []
    claims = Claims(freed=lambda: told.append(1))
    claims.put(a_pod("a"))
    claims.put(a_pod("a"))
    assert told == []
    claims.drop(a_pod("a"))
    claims.drop(a_pod("a"))
    assert told == [1]
