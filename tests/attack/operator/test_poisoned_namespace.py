"""Poison of one namespace on a real API server, with the real operator process: it lives, reads on, and says why.

Findings 1 and 13, behind a CRD that lets both in. `WINDLASS_ATTACK_LONG` creates the ninety large services of the
finding, else a few.
"""

from __future__ import annotations

import json
import os

import poison
import pytest
from real_operator import GROUP, RSS_MIB_MAX, Cluster, answers, has_job, running
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver
LARGE = 90 if os.environ.get("WINDLASS_ATTACK_LONG") else 6
DEEP = 3


def test_poison_costs_nobody_else(api, folder, request):
    """While the operator runs, and again after a restart; every poisoned service says what is wrong with it."""
    cluster, taken = Cluster(api), []
    request.addfinalizer(cluster.http.close)
    for name in ("bad", "good", "later"):
        assert cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    with running(folder, api) as (alive, health, port):
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        bodies = [poison.deep(f"deep-{n}") for n in range(DEEP)] + [poison.large(f"large-{n}") for n in range(LARGE)]
        for body in bodies:
            assert cluster.create(f"{GROUP}/namespaces/bad/llmservices", body)
            taken.append(body["metadata"]["name"])
        assert cluster.create(f"{GROUP}/namespaces/good/llmservices", poison.service("a"))
        wait_until(lambda: has_job(cluster, "good"), "the healthy service is looked at")
        assert alive.alive()
        assert answers(health, "/healthz")
    with running(folder, api) as (alive, health, port):
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready beside the poison")
        assert cluster.create(f"{GROUP}/namespaces/later/llmservices", poison.service("a"))
        wait_until(lambda: has_job(cluster, "later"), "a healthy service is looked at after a restart")
        wait_until(
            lambda: all(cluster.reasons("bad")[name] == "SpecTooLarge" for name in taken),
            "every poisoned service that was taken says SpecTooLarge",
        )
        assert alive.alive()
        assert answers(health, "/healthz")
        peak = alive.memory_mib("VmHWM")
        print(json.dumps({"poisoned": len(taken), "of": LARGE + DEEP, "peak_mib": round(peak)}))
        assert peak < RSS_MIB_MAX
