"""Names and old values in both charts, by the real helm: names stay text, releases keep apart, old values say so."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

from .conftest import Helm, documents

CHARTS = Path(__file__).resolve().parents[2] / "charts"
OPERATOR, LICENSES = "windlass", "windlass-license-server"
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")
MONITORED = {"metrics": {"serviceMonitor": {"enabled": True}}}
# What YAML reads as numbers and as truth; the schemas let them pass as names. Of 1e3, YAML's readers are not of a mind.
ODD = {
    "fullnameOverride": "true",
    "watchNamespaces": ["1234", "77"],
    "priorityClassName": "0x1",
    "serviceAccount": {"name": "null"},
    "autoscaling": {"services": [{"name": "on", "namespace": "1234"}]},
    "console": {
        "enabled": True,
        "session": {"existingSecret": "12"},
        "ingress": {"enabled": True, "className": "11", "host": "*.example.com", "tlsSecret": "007"},
    },
    **MONITORED,
}
ODD_LICENSES = {
    "fullnameOverride": "true",
    "namespace": "77",
    "priorityClassName": "0x1",
    "auth": {"existingSecret": "12", "existingSecretKey": "1"},
    "persistence": {"storageClassName": "11", "existingClaim": ""},
    "tls": {"enabled": True, "secretName": "007", "certManager": {"issuerName": "1"}},
    **MONITORED,
}
NAMES = {
    "className",
    "existingSecret",
    "host",
    "ingressClassName",
    "key",
    "name",
    "namespace",
    "priorityClassName",
    "secretName",
    "serverName",
    "serviceAccountName",
    "storageClassName",
    "app.kubernetes.io/instance",
}


def rendered(helm: Helm, chart: str, values: dict[str, Any], release: str = "55", place: str = "1234") -> list[Any]:
    """The objects of a release; its name and its namespace are numbers, too."""
    done = helm("template", release, str(CHARTS / chart), "--namespace", place, values=values)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def named(part: Any, where: str = "") -> list[tuple[str, Any]]:
    """Each value below a key that holds a name, and each entry of a list of names."""
    if isinstance(part, list):
        return [row for at, one in enumerate(part) for row in named(one, f"{where}/{at}")]
    if not isinstance(part, dict):
        lists = ("/hosts/", "/resourceNames/", "/dnsNames/", "/matchNames/")
        return [(where, part)] if any(word in where for word in lists) else []
    own = [(f"{where}/{key}", one) for key, one in part.items() if key in NAMES and not isinstance(one, dict | list)]
    return [*own, *(row for key, one in part.items() for row in named(one, f"{where}/{key}"))]


@pytest.mark.parametrize(("chart", "values"), [(OPERATOR, ODD), (LICENSES, ODD_LICENSES)], ids=[OPERATOR, LICENSES])
def test_a_name_stays_text_whatever_yaml_reads_in_it(helm: Helm, chart: str, values: dict[str, Any]) -> None:
    """`1234` is a namespace, and `*.example.com` no alias."""
    objects = rendered(helm, chart, values)
    assert len(objects) > 8
    for item in objects:
        if item["kind"] != "CustomResourceDefinition":
            assert [row for row in named(item) if not isinstance(row[1], str)] == [], item["kind"]


def test_the_odd_names_arrive_as_they_are(helm: Helm) -> None:
    """In the Ingress, in the Roles of the namespaces, and at KEDA's object."""
    objects = {(one["kind"], one["metadata"].get("namespace")): one for one in rendered(helm, OPERATOR, ODD)}
    spec = objects["Ingress", "1234"]["spec"]
    assert (spec["ingressClassName"], spec["rules"][0]["host"]) == ("11", "*.example.com")
    assert spec["tls"] == [{"hosts": ["*.example.com"], "secretName": "007"}]
    assert {place for kind, place in objects if kind == "Role"} == {"1234", "77"}
    assert objects["ScaledObject", "1234"]["spec"]["scaleTargetRef"]["name"] == "on"


@pytest.mark.parametrize("watched", [[], ["team-a"]], ids=["all namespaces", "one namespace"])
def test_operators_of_one_release_name_do_not_meet(helm: Helm, watched: list[str]) -> None:
    """What has no namespace of its own has the release's in its name, as at the license server; bindings follow."""
    values = {"watchNamespaces": watched, "crds": {"enabled": False}}
    first, second = (rendered(helm, OPERATOR, values, "windlass", place) for place in ("team-a-system", "team-b"))
    names = [{(one["kind"], one["metadata"]["name"]) for one in rows if one["kind"] in CLUSTER_WIDE}
             for rows in (first, second)]  # fmt: skip
    assert names[0] & names[1] == set()
    assert len(names[0]) == len(names[1]) == (4 if watched else 6)
    assert all(":team-b" in name for _, name in names[1])
    longer = rendered(helm, OPERATOR, values, "windlass-team-a", "system")  # where a hyphen parts both, this one is it
    assert names[0] & {(one["kind"], one["metadata"]["name"]) for one in longer} == set()
    roles = {(one["kind"], one["metadata"]["name"]) for one in second if one["kind"] in ("Role", "ClusterRole")}
    for one in second:
        if one["kind"].endswith("Binding"):
            assert (one["roleRef"]["kind"], one["roleRef"]["name"]) in roles


NEWER = {"admission", "console", "download", "leases", "logging", "podDisruptionBudget", "replicaCount", "tracing"}
KEPT = {
    "replicas of the operator": (OPERATOR, {"replicas": 2}, "the value replicas is called replicaCount"),
    "the operator's namespace": (
        OPERATOR,
        {"watchNamespace": ""},
        "the value watchNamespace is called watchNamespaces",
    ),
    "replicas of the license server": (LICENSES, {"replicas": 1}, "the value replicas is called replicaCount"),
    "pull secrets": (
        LICENSES,
        {"image": {"repository": "windlass/license-server", "tag": "", "pullSecrets": []}},
        "the value image.pullSecrets is called imagePullSecrets",
    ),
}


@pytest.mark.parametrize(("chart", "values", "said"), KEPT.values(), ids=KEPT)
def test_an_earlier_charts_defaults_are_refused_with_the_way_out(
    helm: Helm, tmp_path: Path, chart: str, values: dict[str, Any], said: str
) -> None:
    """`--reuse-values` takes them for this chart's: newer values are missing, and no template fails at that first."""
    copy = copytree(CHARTS / chart, tmp_path / "chart")
    mine = yaml.safe_load((copy / "values.yaml").read_text())
    old = {name: value for name, value in mine.items() if name not in NEWER}
    (copy / "values.yaml").write_text(yaml.safe_dump({**old, **values}))
    done = helm("template", "windlass", str(copy))
    assert done.returncode != 0
    assert said in done.stderr
    assert "where you never set it, upgrade with --reset-then-reuse-values" in done.stderr
    assert "nil pointer" not in done.stderr


def test_nothing_names_the_flag_that_keeps_an_earlier_charts_defaults() -> None:
    """Neither a page nor the notes: a value that is newer would be missing."""
    root = CHARTS.parent
    pages = [*root.glob("docs/**/*.md"), *root.glob("charts/**/*.txt"), root / "README.md"]
    assert [str(one) for one in pages if re.search(r"helm upgrade [^`\n]* --reuse-values\b", one.read_text())] == []


def test_a_monitor_brings_the_service_that_it_selects(helm: Helm) -> None:
    """Also where the Service by itself is switched off."""
    quiet = {"metrics": {"service": False}}
    assert "Service" not in {one["kind"] for one in rendered(helm, OPERATOR, quiet)}
    objects = {
        one["kind"]: one for one in rendered(helm, OPERATOR, {"metrics": {"service": False, **MONITORED["metrics"]}})
    }
    wanted = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= objects["Service"]["metadata"]["labels"].items()


def test_a_pod_that_is_not_ready_does_not_hold_up_a_drain(helm: Helm) -> None:
    """A budget counts ready pods: one that never gets ready could not be evicted."""
    for chart in (OPERATOR, LICENSES):
        (budget,) = [one for one in rendered(helm, chart, {}) if one["kind"] == "PodDisruptionBudget"]
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(("given", "key"), [({}, "ca.crt"), ({"caKey": "root.pem"}, "root.pem"), ({"caKey": ""}, None)])
def test_the_monitor_of_a_license_server_names_an_authority_that_is_there(
    helm: Helm, given: dict[str, str], key: str | None
) -> None:
    """A Secret by ACME has no ca.crt: without it Prometheus takes the authorities that it trusts itself."""
    values = {"tls": {"enabled": True}, "metrics": {"serviceMonitor": {"enabled": True, **given}}}
    (monitor,) = [one for one in rendered(helm, LICENSES, values) if one["kind"] == "ServiceMonitor"]
    trust = monitor["spec"]["endpoints"][0]["tlsConfig"]
    assert trust["serverName"].endswith(".svc")
    assert trust.get("ca", {}).get("secret", {}).get("key") == key
