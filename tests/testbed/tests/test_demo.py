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
