"""The operator's chart, rendered by the real helm: what values change, and that operator and chart mean the same."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase
from windlass.license.answers import issuers
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.cluster.kinds import APPLIED
from windlass_operator.manifests.download_job import download_job
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.runtime import metrics
from windlass_operator.settings import VARIABLES, Settings, from_env
from windlass_operator.status import reasons

from .conftest import Helm, documents

CHART = Path(__file__).resolve().parents[2] / "charts" / "windlass"
METRICS_PAGE = CHART.parents[1] / "docs/reference/metrics.md"
DASHBOARDS = ("licenses", "lookahead", "operator", "quantization", "services")
LICENSE_METRICS = CHART.parents[1] / "license_server/src/windlass_license/http/metrics.py"
Objects = dict[tuple[str, str], dict[str, Any]]
BAD_VALUES = {
    "an unknown value": ({"replica": 2}, "replica"),
    "a node path that is relative": ({"nodePaths": ["models"]}, "nodePaths"),
    "a node path with a comma": ({"nodePaths": ["/a,/"]}, "nodePaths"),
    "an address without a scheme": ({"license": {"addresses": ["licenses:10080"]}}, "addresses"),
    "a policy that is neither there nor not": ({"groups": {"networkPolicy": "maybe"}}, "networkPolicy"),
    "an annotation without a domain": ({"admission": {"ingressAnnotations": ["*"]}}, "ingressAnnotations"),
    "an interval that is none": ({"metrics": {"serviceMonitor": {"interval": "soon"}}}, "interval"),
    "a digest that is none": ({"image": {"digest": "latest"}}, "digest"),
    "a runbook's page with a quote": ({"metrics": {"rules": {"runbookUrl": 'https://docs.example/"'}}}, "runbookUrl"),
    "a typo in global": ({"global": {"repositry": "r"}}, "repositry"),
    "a typo in resources": ({"resources": {"limts": {"cpu": 1}}}, "limts"),
    "a resource that is none": ({"resources": {"limits": {"memroy": "1Gi"}}}, "memroy"),
    "a toleration's typo": ({"tolerations": [{"kee": "gpu"}]}, "kee"),
    "an affinity's typo": ({"affinity": {"nodeAfinity": {}}}, "nodeAfinity"),
    "an affinity's inner typo": ({"affinity": {"nodeAffinity": {"required": {}}}}, "required"),
    "replicas, as it was called": ({"replicas": 2}, "replicaCount"),
    "pullSecrets, as they were called": ({"image": {"pullSecrets": [{"name": "a"}]}}, "imagePullSecrets"),
    "a CA bundle that is none": ({"download": {"caBundle": "site.pem"}}, "caBundle"),
    "a typo in a Job's resources": ({"download": {"resources": {"limts": {"cpu": 1}}}}, "limts"),
    "a claim of a Job": ({"inspect": {"resources": {"claims": []}}}, "claims"),
    "a probe's typo": ({"livenessProbe": {"periodSecond": 1}}, "periodSecond"),
    "a security context's typo": ({"securityContext": {"runAsRoot": False}}, "runAsRoot"),
    "a variable without a name": ({"extraEnv": [{"value": "x"}]}, "extraEnv"),
    "a volume of no kind": ({"extraVolumes": [{"name": "x"}]}, "extraVolumes"),
    "a name with a capital": ({"fullnameOverride": "Windlass"}, "fullnameOverride"),
    "a name that begins with a digit": ({"fullnameOverride": "1st"}, "fullnameOverride"),
    "watchNamespace, as it was called": ({"watchNamespace": "team-a"}, "called watchNamespaces and is a list"),
    "a namespace that is none": ({"watchNamespaces": ["Team A"]}, "watchNamespaces"),
}


Template = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def template(helm: Helm) -> Template:
    """`helm template` with these values."""
    return lambda values: helm("template", "windlass", str(CHART), "--namespace", "windlass", values=values)


PEM = (
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
    "-----END PUBLIC KEY-----\n"
)


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
POD_FIELDS = {"WINDLASS_POD_NAME": "pod", "WINDLASS_POD_NAMESPACE": "windlass"}


@pytest.fixture
def render(template: Template) -> Callable[..., Objects]:
    """The chart's objects by kind and name."""

    def objects(**values: Any) -> Objects:
        done = template(values)
        assert done.returncode == 0, done.stderr
        found = documents(done.stdout)
        return {(item["kind"], item["metadata"]["name"]): item for item in found}

    return objects


def test_the_operator_understands_every_variable_that_the_chart_sets(render):
    """A variable that nobody reads is a value without effect."""
    objects = render(
        nodePaths=["/goosefsx", "/models"],
        license={"addresses": ["http://one:10080"], "publicKeys": [PEM, PEM.strip()]},
        groups={"networkPolicy": False},
        watchNamespaces=["team-a", "team-b"],
        admission={"ingressAnnotations": ["a.example/b"], "podAnnotations": ["cdi.k8s.io/*"]},
    )
    (container,) = objects["Deployment", "windlass"]["spec"]["template"]["spec"]["containers"]
    names = [row["name"] for row in container["env"]]
    assert set(names) <= {row.name for row in VARIABLES}
    settings = from_env({row["name"]: row.get("value", "from the pod's own fields") for row in container["env"]})
    assert settings.lease_name == "windlass-operator"
    assert settings.node_paths == ("/goosefsx", "/models")
    assert settings.license_addresses == ("http://one:10080",)
    assert settings.license_public_keys == (PEM * 2).strip()
    assert len(issuers(settings.license_public_keys).keys) == 1
    assert (settings.server_image, settings.server_cpu_image) == ("windlass/server", "windlass/server-cpu")
    assert (settings.deepspeed_image, settings.deepspeed_cpu_image) == ("windlass/deepspeed-gpu", "windlass/deepspeed")
    assert settings.group_network_policy is False
    assert settings.watch_namespaces == ("team-a", "team-b")
    assert (settings.ingress_annotations, settings.pod_annotations) == (("a.example/b",), ("cdi.k8s.io/*",))


@pytest.mark.parametrize(
    ("values", "expected"),
    [({}, [{"namespaceSelector": {}}]), ({"from": [{"podSelector": {}}]}, [{"podSelector": {}}])],
    ids=["all pods", "some pods"],
)
def test_pods_reach_the_metrics_alone(render, values, expected):
    """Probes come from the node, which no policy keeps away."""
    objects = render(networkPolicy=values)
    policy = objects["NetworkPolicy", "windlass"]["spec"]
    labels = objects["Deployment", "windlass"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "metrics"}], "from": expected}]
    assert ("NetworkPolicy", "windlass") not in render(networkPolicy={"enabled": False})


def test_images_are_pinned_by_digest_in_a_registry_of_the_site(render):
    """The operator's own image and all four of its services; the operator reads them back as they are."""
    own, *four = (f"sha256:{digit * 64}" for digit in "01234")
    vllm, deepspeed = ({"digest": gpu, "cpuDigest": cpu} for gpu, cpu in (four[:2], four[2:]))
    server = {"image": vllm, "deepspeed": deepspeed}
    objects = render(**{"global": {"repository": "site:5000/team"}}, image={"digest": own}, server=server)
    (container,) = objects["Deployment", "windlass"]["spec"]["template"]["spec"]["containers"]
    settings = from_env({row["name"]: row.get("value", "a pod's") for row in container["env"]})
    assert container["image"] == settings.operator_image == f"site:5000/team/windlass/operator@{own}"
    served = (settings.server_image, settings.server_cpu_image, settings.deepspeed_image, settings.deepspeed_cpu_image)
    names = ("server", "server-cpu", "deepspeed-gpu", "deepspeed")
    assert served == tuple(f"site:5000/team/windlass/{name}@{one}" for name, one in zip(names, four, strict=True))


def test_the_rights_are_those_that_the_operator_needs(render):
    """Every kind that is applied may be applied, kept kinds may be deleted, and Secrets are not even named."""
    objects = render()
    rules = objects["ClusterRole", "windlass:windlass"]["rules"]
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    for kind in APPLIED.values():
        allowed = verbs[kind.group, kind.plural]
        assert {"get", "list", "create", "patch"} <= allowed, kind.plural
    text = json.dumps([item for (kind, _), item in objects.items() if kind in ("ClusterRole", "Role")])
    assert "secrets" not in text
    assert '"*"' not in text
    for word in ("escalate", "bind", "impersonate", "pods/exec", "serviceaccounts/token"):
        assert word not in text


def test_namespaces_need_no_rights_in_others(template):
    """Beside nodes, which have no namespace: the same rules as a Role in each, bound there, and no cluster-wide one."""
    done = template({"watchNamespaces": ["team-a", "team-b"], "rbac": {"aggregate": False}})
    every = template({"rbac": {"aggregate": False}})
    assert (done.returncode, every.returncode) == (0, 0), done.stderr
    rows, wide = (documents(one.stdout) for one in (done, every))
    wide_role = ("ClusterRole", "windlass:windlass")
    (whole,) = [item for item in wide if (item["kind"], item["metadata"]["name"]) == wide_role]
    assert [item["metadata"]["name"] for item in rows if item["kind"] == "ClusterRole"] == ["windlass:windlass:nodes"]
    for namespace in ("team-a", "team-b"):
        mine = [item for item in rows if item["metadata"].get("namespace") == namespace]
        role, binding = mine
        assert (role["kind"], role["rules"]) == ("Role", whole["rules"])
        assert (binding["kind"], binding["roleRef"]["name"]) == ("RoleBinding", role["metadata"]["name"])
        assert binding["subjects"][0] == {"kind": "ServiceAccount", "name": "windlass", "namespace": "windlass"}
    (nodes,) = [item for item in rows if item["kind"] == "ClusterRole"]
    assert nodes["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]


def test_alerts_and_dashboard_speak_of_metrics_that_are_there(render):
    """An alert on a name that nobody writes never fires."""
    toggled: dict[str, dict[str, Any]] = {name: {"enabled": True} for name in ("serviceMonitor", "rules", "dashboard")}
    toggled["rules"]["runbookUrl"] = "https://wiki.example/alerts"
    objects = render(metrics=toggled)
    written = {
        metric.describe()[0].name for metric in vars(metrics).values() if isinstance(metric, MetricWrapperBase)
    }  # without the endings that the text format adds
    source = LICENSE_METRICS.read_text()  # gauges and histograms without the prefix, counters with it
    written |= {f"windlass_license_{name}" for name in re.findall(r'\("([a-z_]+)", "', source)}
    written |= set(re.findall(r'"(windlass_license_[a-z_]+)",', source))
    rules = json.dumps(objects["PrometheusRule", "windlass"])
    boards = objects["ConfigMap", "windlass-dashboard"]["data"]
    assert sorted(boards) == [f"windlass-{name}.json" for name in DASHBOARDS]
    written |= set(re.findall(r"^\| `(windlass_[a-z_]+?)(?:_total)?` \|", METRICS_PAGE.read_text(), re.M))
    board = "".join(boards.values())
    said = set(re.findall(r"\bwindlass_[a-z_]+", rules + board))
    assert said
    for name in said:
        assert re.sub(r"_(total|bucket|count|sum)$", "", name) in written, name
    loaded = [json.loads(text) for text in boards.values()]
    assert all(one["panels"] for one in loaded)
    assert len({one["uid"] for one in loaded}) == len(DASHBOARDS)
    groups = objects["PrometheusRule", "windlass"]["spec"]["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"]]
    page = (CHART.parents[1] / "docs" / "reference" / "alerts.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.M) == alerts
    urls = [rule["annotations"]["runbook_url"] for rule in groups[0]["rules"]]
    assert urls == [f"https://wiki.example/alerts#{alert.lower()}" for alert in alerts]
    for matcher in re.findall(r'reason!?=~\\"([A-Za-z|]+)\\"', rules):
        for word in matcher.split("|"):
            assert word in reasons.TABLE, word


def test_the_charts_requests_and_limits_of_jobs_are_the_operators_own(render):
    """So the chart's defaults make no other Job than an operator without them; other values reach the Jobs as text."""
    model = {"id": "m", "source": {"pvc": {"claimName": "models"}}, "download": {"hub": "huggingface", "name": "o/n"}}
    meta = {"name": "qwen", "namespace": "a", "uid": "u"}
    service = LLMService.model_validate({"metadata": meta, "spec": {"model": model}})
    settings = settings_of(render())
    assert inspect_job(service, "i:1", "Never", None, settings.inspect_resources) == inspect_job(
        service, "i:1", "Never"
    )
    given = download_job([service], "i:1", "Never", None, settings.download_resources)
    assert given == download_job([service], "i:1", "Never")
    older = settings_of(render(inspect=None, download={"resources": None}))  # an upgrade with --reuse-values
    assert (older.inspect_resources, older.download_resources) == (None, None)
    settings = settings_of(render(inspect={"resources": {"limits": {"cpu": 1}}}))
    assert settings.inspect_resources == {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }


def settings_of(objects: Objects) -> Settings:
    (container,) = objects["Deployment", "windlass"]["spec"]["template"]["spec"]["containers"]
    return from_env({**{row["name"]: row["value"] for row in container["env"] if "value" in row}, **POD_FIELDS})


def test_what_other_charts_call_so_has_its_effect(render):
    """Names, variables, volumes, probe times, contexts, the spread and the budget reach their places."""
    spread = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    objects = render(
        fullnameOverride="ops",
        replicaCount=3,
        imagePullSecrets=[{"name": "pull"}],
        download={"caBundle": CERTIFICATE},
        extraEnv=[{"name": "TZ", "value": "UTC"}],
        extraVolumes=[{"name": "more", "emptyDir": {}}],
        extraVolumeMounts=[{"name": "more", "mountPath": "/more"}],
        livenessProbe={"periodSeconds": 7},
        securityContext={"runAsNonRoot": True},
        topologySpreadConstraints=[spread],
        podDisruptionBudget={"maxUnavailable": 2},
    )
    deployment = objects["Deployment", "ops"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {row["name"]: row.get("value") for row in container["env"]}
    assert deployment["spec"]["replicas"] == 3
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["topologySpreadConstraints"] == [spread]
    assert env["TZ"] == "UTC"
    assert from_env({**env, **POD_FIELDS}).download_env == (("WINDLASS_HUB_CA", CERTIFICATE.strip()),)
    assert (
        [row["name"] for row in pod["volumes"]] == [row["name"] for row in container["volumeMounts"]] == ["tmp", "more"]
    )
    assert container["livenessProbe"]["periodSeconds"] == 7
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert objects["PodDisruptionBudget", "ops"]["spec"]["maxUnavailable"] == 2
    assert ("PodDisruptionBudget", "windlass") not in render(replicaCount=1)


def test_nothing_of_the_prometheus_operator_is_made_unasked(render):
    """Its kinds may not be in the cluster."""
    kinds = {kind for kind, _ in render()}
    assert not kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule"}


def open_objects(part: Any, where: str = "") -> list[str]:
    """Objects of a schema that take any name."""
    if not isinstance(part, dict):
        return []
    free = part.get("type") == "object" and part.get("additionalProperties", True) is True
    inner = [one for name, value in part.items() for one in open_objects(value, f"{where}/{name}")]
    return [where, *inner] if free else inner


def test_no_value_below_the_top_takes_any_name() -> None:
    """Free are Kubernetes' selectors alone, whose keys are labels or rules of its own."""
    for chart in ("windlass", "windlass-license-server"):
        schema = json.loads((CHART.parent / chart / "values.schema.json").read_text())
        allowed = ("claims/items", "Selector", "ipBlock")
        assert [where for where in open_objects(schema) if not where.endswith(allowed)] == [], chart


@pytest.mark.parametrize(("values", "word"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_wrong_value_is_named(template, values, word):
    """By the chart's schema, before anything is installed."""
    done = template(values)
    assert done.returncode != 0
    assert word in done.stderr


def test_the_crd_is_the_committed_one_and_may_be_left_out(render):
    """The chart carries a copy; `make check` compares it."""
    committed = (CHART.parents[1] / "crds" / "llmservices.serving.windlass.dev.yaml").read_text()
    assert (CHART / "files" / "llmservices.yaml").read_text() == committed
    assert not [kind for kind, _ in render(crds={"enabled": False}) if kind == "CustomResourceDefinition"]
    (crd,) = [item for (kind, _), item in render().items() if kind == "CustomResourceDefinition"]
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
