"""The operator's settings: read once, and a wrong one is one sentence that names the variable."""

from __future__ import annotations

import pytest
from windlass_operator.errors import SettingsError
from windlass_operator.settings import Settings, from_env
from windlass_testbed.cases import every_case

ENOUGH = {
    "WINDLASS_SERVER_IMAGE": "registry.example:5000/windlass/server",
    "WINDLASS_SERVER_VERSION": "1.2",
    "WINDLASS_OPERATOR_IMAGE": "windlass/operator:1.2",
}


def test_the_chart_s_least_environment_is_enough():
    assert from_env(ENOUGH) == Settings(
        server_image="registry.example:5000/windlass/server",
        server_version="1.2",
        operator_image="windlass/operator:1.2",
        image_pull_policy="IfNotPresent",
        license_addresses=(),
        watch_namespaces=(),
        metrics_port=9090,
        health_port=8080,
    )


def test_every_variable_is_read():
    env = {
        **ENOUGH,
        "WINDLASS_IMAGE_PULL_POLICY": "Never",
        "WINDLASS_LS_ADDR": "http://one:10080, https://two",
        "WINDLASS_WATCH_NAMESPACE": "team-a, team-b,team-a",
        "WINDLASS_METRICS_PORT": "0",
        "WINDLASS_HEALTH_PORT": "81",
    }
    settings = from_env(env)
    assert settings.license_addresses == ("http://one:10080", "https://two")
    assert (settings.image_pull_policy, settings.watch_namespaces) == ("Never", ("team-a", "team-b"))
    assert (settings.metrics_port, settings.health_port) == (0, 81)


@every_case(
    "variable, value, words",
    [
        ("WINDLASS_SERVER_IMAGE", "", "WINDLASS_SERVER_IMAGE is not set: give it the repository of the serving image"),
        ("WINDLASS_SERVER_IMAGE", "windlass/server:1.2", "leave the tag out"),
        ("WINDLASS_SERVER_IMAGE", "windlass/server@sha256:12", "write a digest as @sha256: and 64 hex digits"),
        ("WINDLASS_SERVER_IMAGE", f"windlass/server:1.2@sha256:{'a' * 64}", "leave the tag out"),
        ("WINDLASS_IMAGE_PULL_POLICY", "Sometimes", "use one of Always, IfNotPresent, Never"),
        ("WINDLASS_OPERATOR_TRACES_ENDPOINT", "c:4318", "begin it with http:// or https://"),
        ("WINDLASS_LS_ADDR", "licenses:10080", "each address begins with http:// or https://"),
        ("WINDLASS_METRICS_PORT", "http", "use a port number from 1 to 65535, or 0"),
        ("WINDLASS_HEALTH_PORT", "70000", "use a port number from 1 to 65535, or 0"),
        ("WINDLASS_INSPECT_RESOURCES", "cpu: 1", "WINDLASS_INSPECT_RESOURCES is no JSON"),
        ("WINDLASS_DOWNLOAD_RESOURCES", '{"claims": {}}', 'write {"requests": {"cpu": "50m"}'),
        ("WINDLASS_DOWNLOAD_RESOURCES", '{"limits": {"cpu": "much"}}', 'write {"requests": {"cpu": "50m"}'),
        ("WINDLASS_LEASE_NAME", "l", "WINDLASS_POD_NAME is not set, and WINDLASS_LEASE_NAME is"),
    ],
)
def test_a_wrong_variable_is_one_sentence(variable, value, words):
    with pytest.raises(SettingsError, match=variable) as caught:
        from_env({**ENOUGH, variable: value})
    assert words in str(caught.value)


def test_traces_are_off_by_default():
    """By both variables of OpenTelemetry."""
    assert from_env(ENOUGH).traces_env == ()
    name = "OTEL_EXPORTER_OTLP_TRACES"
    settings = from_env({**ENOUGH, "WINDLASS_TRACES_ENDPOINT": "http://c:4317"})
    assert settings.traces_env == ((f"{name}_ENDPOINT", "http://c:4317"), (f"{name}_PROTOCOL", "grpc"))
    with pytest.raises(SettingsError, match='WINDLASS_TRACES_ENDPOINT is "c:4317": begin it with http'):
        from_env({**ENOUGH, "WINDLASS_TRACES_ENDPOINT": "c:4317"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ""),
        ({"WINDLASS_TRACES_ENDPOINT": "http://c:4317"}, ""),
        ({"WINDLASS_TRACES_ENDPOINT": "http://c/v1/traces", "WINDLASS_TRACES_PROTOCOL": "http/protobuf"}, "http://c/v1/traces"),
        ({"WINDLASS_TRACES_ENDPOINT": "http://c:4317", "WINDLASS_OPERATOR_TRACES_ENDPOINT": "http://o/v1/traces"}, "http://o/v1/traces"),
    ],
    ids=["off", "grpc", "http", "own"],
)  # fmt: skip
def test_the_operator_sends_its_own_traces_by_http_alone(given, expected):
    """To the pods' endpoint where that takes them, else to one of its own."""
    assert from_env({**ENOUGH, **given}).traces_endpoint == expected


def test_logging_is_passed_on_where_it_is_not_the_default():
    """Pods and Jobs of an installation that sets nothing stay as they are."""
    assert (from_env(ENOUGH).job_log_env, from_env(ENOUGH).server_log_env) == ((), ())
    settings = from_env({**ENOUGH, "WINDLASS_LOG_FORMAT": "json", "WINDLASS_SERVER_LOG_LEVEL": "error"})
    assert settings.job_log_env == (("WINDLASS_LOG_FORMAT", "json"),)
    assert settings.server_log_env == (("WINDLASS_LOG_LEVEL", "error"),)
    with pytest.raises(SettingsError, match='WINDLASS_SERVER_LOG_FORMAT is "xml": use one of text, json'):
        from_env({**ENOUGH, "WINDLASS_SERVER_LOG_FORMAT": "xml"})
