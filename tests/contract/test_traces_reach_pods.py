"""`tracing.endpoint` of the chart reaches the engine's command line and the guard, through operator and pod."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from spec_changes import BASE, FACTS, INVENTORY
from windlass.api.tracing import TRACES_VARIABLE
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Plan
from windlass_api.plan.record import PlanRecord
from windlass_api.plan.rollout import choose_rollout
from windlass_operator.reconcile.desired_state import parse_service, workload
from windlass_operator.settings import Settings, from_env

from .conftest import Helm, documents

CHART = Path(__file__).resolve().parents[2] / "charts/windlass"
ENDPOINT = "http://collector.monitoring.svc:4318/v1/traces"
NODE = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(8)))
FILES = ModelFiles("/data/model", model_type="qwen2", max_model_len=131072, attention_heads=28)


def settings_of(helm: Helm, values: dict[str, Any]) -> Settings:
    """What the operator of a chart with these values is told."""
    done = helm("template", "windlass", str(CHART), values=values)
    assert done.returncode == 0, done.stderr
    (operator,) = [one for one in documents(done.stdout) if one["kind"] == "Deployment"]
    rows = operator["spec"]["template"]["spec"]["containers"][0]["env"]
    pod = {"WINDLASS_POD_NAME": "operator-0", "WINDLASS_POD_NAMESPACE": "windlass-system"}
    return from_env({**pod, **{row["name"]: row["value"] for row in rows if "value" in row}})


def server_of(helm: Helm, values: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """The container that this operator makes for a service."""
    settings = settings_of(helm, values)
    service = parse_service({"metadata": {"name": "qwen", "namespace": "a", "uid": "u"}, "spec": spec})
    plan = decide(service.spec, FACTS, INVENTORY)
    assert isinstance(plan, Plan)
    record = PlanRecord("same", plan, choose_rollout(service.spec.deployment.rollout, plan, INVENTORY), "same")
    (pods,) = [one for one in workload(service, record, settings) if one["kind"] == "Deployment"]
    return dict(pods["spec"]["template"]["spec"]["containers"][0])


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["value"] for row in container["env"] if "value" in row}


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_the_endpoint_reaches_the_engine_and_the_guard(helm: Helm, protocol: str) -> None:
    """With the protocol, and the LLMService's name as the service's in traces."""
    container = server_of(helm, {"tracing": {"endpoint": ENDPOINT, "protocol": protocol}}, BASE)
    told = variables(container)
    assert told["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == protocol
    assert told["OTEL_SERVICE_NAME"] == "qwen"
    plan = resolve(tuple(container["args"][1:]), told, FILES, NODE)
    words = list(plan.engine_args)
    assert words[words.index("--otlp-traces-endpoint") + 1] == ENDPOINT
    assert plan.variables[TRACES_VARIABLE] == "1"


@pytest.mark.parametrize(
    ("tracing", "expected"),
    [
        ({"endpoint": ENDPOINT, "protocol": "http/protobuf"}, ENDPOINT),
        ({"endpoint": "http://collector:4317"}, ""),
        ({"endpoint": "http://collector:4317", "operatorEndpoint": ENDPOINT}, ENDPOINT),
        ({"operatorEndpoint": ENDPOINT}, ENDPOINT),
        ({}, ""),
    ],
    ids=["http", "grpc", "both", "own alone", "off"],
)
def test_the_endpoint_reaches_the_operator(helm: Helm, tracing: dict[str, Any], expected: str) -> None:
    """Its own one, else that of the pods where it takes HTTP."""
    assert settings_of(helm, {"tracing": tracing}).traces_endpoint == expected


def test_a_service_may_send_them_elsewhere(helm: Helm) -> None:
    """By the same variable of its own."""
    own = [{"name": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "value": "http://other:4317"}]
    container = server_of(helm, {"tracing": {"endpoint": ENDPOINT}}, {**BASE, "env": own})
    assert variables(container)["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "http://other:4317"


@pytest.mark.parametrize(("values", "family"), [({}, "vllm"), ({"tracing": {"endpoint": ENDPOINT}}, "deepspeed")])
def test_a_pod_without_traces_gets_no_endpoint(helm: Helm, values: dict[str, Any], family: str) -> None:
    """Nobody out of the box, and never the DeepSpeed server."""
    container = server_of(helm, values, {**BASE, "image": {"family": family}})
    assert not [name for name in variables(container) if name.startswith("OTEL_")]
