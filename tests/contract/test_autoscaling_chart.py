"""The chart's ScaledObjects: what they point at, and what their queries give, by the real helm and promtool."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass.api.pages import metrics
from windlass.front.gate import Gate
from windlass.front.processes import numbers
from windlass_api.crd.v1alpha1 import API_VERSION, KIND
from windlass_testbed import prometheus
from windlass_testbed.paths import TESTBED, paths

from .conftest import Helm, documents

CHART = Path(__file__).resolve().parents[2] / "charts/windlass"
MONITORING = TESTBED / "addons/prometheus.yaml"
ONE = {"name": "qwen", "namespace": "team-a"}
WHICH = 'namespace="team-a",serving_windlass_dev_service="qwen"'
OTHER = 'namespace="team-b",serving_windlass_dev_service="qwen"'
Scaled = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def scaled(helm: Helm) -> Scaled:
    """The ScaledObjects for these values of `autoscaling`."""

    def objects(**values: Any) -> list[dict[str, Any]]:
        done = helm("template", "windlass", str(CHART), values={"autoscaling": values})
        assert done.returncode == 0, done.stderr
        return [one for one in documents(done.stdout) if one["kind"] == "ScaledObject"]

    return objects


def test_no_service_is_scaled_unasked(scaled: Scaled) -> None:
    """Out of the box there is none, so that the chart needs no KEDA."""
    assert scaled() == []


def test_each_service_has_its_own_and_takes_the_rest_from_the_defaults(scaled: Scaled) -> None:
    """Of two services, the second says more."""
    first, second = scaled(services=[ONE, {**ONE, "name": "other", "maxReplicas": 9, "requests": 2}])
    assert first["metadata"]["namespace"] == "team-a"
    assert first["spec"]["scaleTargetRef"] == {"apiVersion": API_VERSION, "kind": KIND, "name": "qwen"}
    assert (first["spec"]["minReplicaCount"], first["spec"]["maxReplicaCount"]) == (1, 2)
    assert (second["spec"]["maxReplicaCount"], second["spec"]["triggers"][0]["metadata"]["threshold"]) == (9, "2")
    assert all(row["metadata"]["ignoreNullValues"] == "false" for row in first["spec"]["triggers"])


def test_zero_is_no_default(scaled: Scaled) -> None:
    """A service that gives replicas back at once."""
    (one,) = scaled(services=[{**ONE, "idleSeconds": 0}])
    behavior = one["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 0


def test_more_at_least_than_at_most_is_refused(helm: Helm) -> None:
    """The maximum is the default's."""
    done = helm("template", "windlass", str(CHART), values={"autoscaling": {"services": [{**ONE, "minReplicas": 5}]}})
    assert "qwen has minReplicas 5 above maxReplicas 2; set both" in done.stderr


@pytest.mark.parametrize("wrong", [{"minReplicas": 0}, {"name": "A"}, {"replicas": 2}, {"kvCachePercent": 101}])
def test_what_cannot_be_is_refused(helm: Helm, wrong: dict[str, Any]) -> None:
    """By the chart's schema, zero replicas among it."""
    done = helm("template", "windlass", str(CHART), values={"autoscaling": {"services": [{**ONE, **wrong}]}})
    assert done.returncode
    assert next(iter(wrong)) in done.stderr


def series(name: str, value: float, labels: str = WHICH) -> dict[str, str]:
    return {"series": f"{name}{{{labels}}}", "values": f"{value}"}


ENGINE = [series("vllm:num_requests_running", 3), series("vllm:num_requests_waiting", 9)]
KV = [series("vllm:kv_cache_usage_perc", 0.5, f'{WHICH},pod="{pod}"') for pod in ("a", "b")]
CASES = {
    "running, waiting and before the engine": (0, [*ENGINE, series("windlass_api_requests_waiting", 2)], 14.0),
    "another namespace's does not count": (
        0, [*ENGINE, series("windlass_api_requests_waiting", 2), series("vllm:num_requests_running", 50, OTHER)], 14.0),
    "a figure that is missing is none": (0, ENGINE, None),
    "the caches of all replicas": (1, KV, 100.0),
    "no replica, no figure": (1, [], None),
}  # fmt: skip


@pytest.mark.parametrize(("trigger", "given", "wanted"), CASES.values(), ids=CASES)
def test_a_query_gives(scaled: Scaled, tmp_path: Path, trigger: int, given: list[Any], wanted: float | None) -> None:
    """What KEDA would hear of Prometheus."""
    (one,) = scaled(services=[ONE])
    query = one["spec"]["triggers"][trigger]["metadata"]["query"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": []}))
    samples = [] if wanted is None else [{"labels": "{}", "value": wanted}]
    case = {"input_series": given, "promql_expr_test": [{"expr": query, "eval_time": "0s", "exp_samples": samples}]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [case]}))
    command = [prometheus.ensure(paths()) / "promtool", "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_guard_has_the_metric_and_both_scrapers_its_path(helm: Helm, tmp_path: Path) -> None:
    """The chart's PodMonitor and the test cluster's Prometheus read the same two paths."""
    assert b"\nwindlass_api_requests_waiting 0" in metrics(numbers.of_gate(Gate(1, 1)))
    done = helm("template", "windlass", str(CHART), values={"metrics": {"serviceMonitor": {"enabled": True}}})
    (monitor,) = [one for one in documents(done.stdout) if one["kind"] == "PodMonitor"]
    (told,) = [one for one in documents(MONITORING.read_text()) if one["kind"] == "ConfigMap"]
    config = tmp_path / "prometheus.yaml"
    config.write_text(told["data"]["prometheus.yaml"])
    subprocess.run([prometheus.ensure(paths()) / "promtool", "check", "config", config], check=True)
    jobs = yaml.safe_load(config.read_text())["scrape_configs"]
    wanted = ["/metrics", "/windlass/metrics"]
    endpoints = monitor["spec"]["podMetricsEndpoints"]
    assert [one["path"] for one in endpoints] == wanted
    apart = {"sourceLabels": ["__metrics_path__"], "targetLabel": "metrics_path"}
    assert [one["relabelings"] for one in endpoints] == [[apart]] * 2, "else both write the same series `up`"
    assert [job["metrics_path"] for job in jobs if "dns_sd_configs" in job] == wanted
