"""The demo's service, without a cluster."""

import pytest
from windlass_testbed import demo
from windlass_testbed.paths import Paths


@pytest.mark.parametrize(
    ("came", "restarted"),
    [
        ("2026-11-28T10:00:00Z", "2026-11-28T10:00:00Z"),
        ("2026-11-28T10:00:00Z 2026-11-29T10:00:00Z", "2026-11-29T10:00:00Z"),
    ],
    ids=["one operator", "a rollout"],
)
def test_the_service_restarts_with_the_operator(came, restarted, monkeypatch, tmp_path):
    """The annotation is a time, as its name says: that of the newest operator."""
    calls: list[tuple[str, ...]] = []

    def kubectl(_paths: Paths, *words: str) -> str:
        calls.append(words)
        return came if "replicaset" in words else "{}"

    monkeypatch.setattr(demo, "kubectl", kubectl)
    demo.with_todays_pods(Paths(tmp_path, tmp_path))
    assert f"serving.windlass.dev/restartedAt={restarted}" in calls[-1]


@pytest.mark.parametrize(
    ("status", "observed", "shown"),
    [("True", 2, "True"), ("True", 1, "Unknown"), ("False", 2, "False"), ("Unknown", 2, "Unknown")],
    ids=["all replicas of the present spec", "those of the spec before", "none", "nobody knows"],
)
def test_the_demo_is_ready_as_kubectl_wait_takes_it(status, observed, shown):
    """A True Ready of an earlier spec is none."""
    row = {"type": "Ready", "status": status, "reason": "Running", "observedGeneration": observed}
    found = demo.ready_condition({"metadata": {"generation": 2}, "status": {"conditions": [row]}})
    assert (found["status"], found["reason"]) == (shown, "Running")


def test_a_service_that_no_operator_saw_has_no_ready_condition():
    assert demo.ready_condition({"metadata": {"generation": 1}}) == {}
