"""The license server's chart, rendered by the real helm: what each value changes, and that a wrong value is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from windlass.license.settings import DEFAULT_ADDRESSES
from windlass_license.cli import command_line
from windlass_license.http.app import create_app
from windlass_license.license_file.keys import by_id, parse_public
from windlass_license.settings import Settings

from .conftest import Helm, documents

CHART = Path(__file__).resolve().parents[2] / "charts" / "windlass-license-server"
KEY = (
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
    "-----END PUBLIC KEY-----\n"
)
NAME = "windlass-license-server"
(KEY_OBJECT,) = parse_public(KEY, "key")
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def render(helm: Helm) -> Callable[..., Objects]:
    """The chart's objects by kind and name, for these values besides a public key."""

    def objects(*flags: str, **values: Any) -> Objects:
        values = {"publicKeys": [KEY], **values}
        done = helm("template", "release", str(CHART), "--namespace", "kube-system", *flags, values=values)
        assert done.returncode == 0, done.stderr
        found = documents(done.stdout)
        return {(item["kind"], item["metadata"]["name"]): item for item in found}

    return objects


def server(objects: Objects) -> dict[str, Any]:
    """The server's container."""
    (container,) = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_default_objects(render: Callable[..., Objects]) -> None:
    """Out of the box: a token, a volume, one name, an elected replica, no way out but to the API server."""
    kinds = {"Deployment", "Service", "PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding"}
    cluster = {(kind, f"{NAME}-kube-system") for kind in ("ClusterRole", "ClusterRoleBinding")}
    named = {(kind, NAME) for kind in {*kinds, "NetworkPolicy", "PodDisruptionBudget"}}
    others = {("ConfigMap", f"{NAME}-keys"), ("Secret", f"{NAME}-admin"), ("Pod", f"{NAME}-test")}
    assert set(render()) == named | others | cluster


def test_the_server_understands_its_arguments(render: Callable[..., Objects]) -> None:
    """The chart and the program agree on every flag."""
    said = {"leases": {"ttlSeconds": 90}, "audit": {"records": 5, "mebibytes": 7}, "tls": {"enabled": True}}
    options = command_line().parse_args(server(render(extraArgs=["--trust-clock"], **said))["args"])
    assert (options.port, options.ttl_seconds, options.trust_clock) == (10080, 90, True)
    assert (options.audit_records, options.audit_mib) == (5, 7)
    assert (options.kube_lease, str(options.tls_dir)) == (f"kube-system/{NAME}", "/etc/windlass-license-tls")
    (keys,) = (mount["mountPath"] for mount in server(render())["volumeMounts"] if mount["name"] == "keys")
    assert options.public_key == [Path(keys)]


def test_pods_are_restricted(render: Callable[..., Objects]) -> None:
    """Both pods satisfy the restricted Pod Security Standard with a read-only root file system."""
    objects = render()
    pods = (objects["Deployment", NAME]["spec"]["template"]["spec"], objects["Pod", f"{NAME}-test"]["spec"])
    for pod, knows_the_api_server in zip(pods, (True, False), strict=True):
        assert pod["automountServiceAccountToken"] is knows_the_api_server
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_an_empty_token_is_the_bare_curl(render: Callable[..., Objects]) -> None:
    """`--set auth.adminToken=` makes no Secret and asks for nothing."""
    objects = render("--set", "auth.adminToken=")
    assert not [kind for kind, _ in objects if kind == "Secret"]
    names = [variable["name"] for variable in server(objects)["env"]]
    assert names == ["TMPDIR", "WINDLASS_LOG_FORMAT", "WINDLASS_LOG_LEVEL"]


def test_a_secret_of_one_s_own(render: Callable[..., Objects]) -> None:
    """An existing Secret is referred to, not made."""
    objects = render(auth={"existingSecret": "mine", "existingSecretKey": "admin"})
    assert not [kind for kind, _ in objects if kind == "Secret"]
    variable = {row["name"]: row for row in server(objects)["env"]}["WINDLASS_LICENSE_ADMIN_TOKEN"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "mine", "key": "admin"}


def test_registry_and_legacy_name(render: Callable[..., Objects]) -> None:
    """The manual's `global.repository`, and the original's service name on request."""
    objects = render("--set", "global.repository=registry.example.com/x", "--set", "global.legacyServiceName=true")
    assert (image := server(objects)["image"]).startswith("registry.example.com/x/windlass/license-server:")
    assert image == objects["Pod", f"{NAME}-test"]["spec"]["containers"][0]["image"]
    own = objects["Service", NAME]["spec"]
    assert objects["Service", "taco-license-server"]["spec"] == own
    assert own["ports"] == [{"name": "http", "port": 10080, "targetPort": "http"}]


def test_two_keys_in_one_file(render: Callable[..., Objects]) -> None:
    """During a rotation both keys reach the server."""
    pem = render(publicKeys=[KEY, KEY.strip()])["ConfigMap", f"{NAME}-keys"]["data"]["public.pem"]
    assert pem == KEY * 2


def test_switched_off(render: Callable[..., Objects]) -> None:
    """Whatever can be left out is left out, with all that belongs to it."""
    off = {"enabled": False}
    objects = render(
        persistence=off, networkPolicy=off, podDisruptionBudget=off, election={"lease": False}, leases={"auth": "none"}
    )
    assert {kind for kind, _ in objects} == {"ConfigMap", "Deployment", "Pod", "Secret", "Service"}
    pod = objects["Deployment", NAME]["spec"]["template"]["spec"]
    assert (pod["automountServiceAccountToken"], pod.get("serviceAccountName")) == (False, None)
    assert not [word for word in server(objects)["args"] if word.startswith("--kube-lease")]
    assert {"name": "data", "emptyDir": {}} in pod["volumes"]


def test_an_answer_key_of_one_s_own(render: Callable[..., Objects]) -> None:
    """The Secret is mounted where the flag says."""
    objects = render(answerKey={"existingSecret": "mine"})
    options = command_line().parse_args(server(objects)["args"])
    mounts = {row["name"]: row["mountPath"] for row in server(objects)["volumeMounts"]}
    assert str(options.answer_key) == f"{mounts['answer-key']}/private.pem"
    volumes = {row["name"]: row for row in objects["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["answer-key"]["secret"]["secretName"] == "mine"


def test_tokens_need_two_rights_and_one_without_pods(render: Callable[..., Objects]) -> None:
    """To review tokens and to read a pod; `leases.podGpus=false` does without the second, `auth=none` without both."""
    role = ("ClusterRole", f"{NAME}-kube-system")
    rights = [(rule["resources"], rule["verbs"]) for rule in render()[role]["rules"]]
    assert rights == [(["tokenreviews"], ["create"]), (["pods"], ["get"])]
    (rule,) = render(leases={"podGpus": False})[role]["rules"]
    assert rule["resources"] == ["tokenreviews"]
    assert role not in render(leases={"auth": "none"})
    options = command_line().parse_args(server(render(leases={"podGpus": False, "perGpu": 7}))["args"])
    assert (options.lease_auth, options.pod_gpus, options.leases_per_gpu) == ("kubernetes", "ignore", 7)
    pod = render(election={"lease": False})["Deployment", NAME]["spec"]["template"]["spec"]
    assert (pod["automountServiceAccountToken"], pod["serviceAccountName"]) == (True, NAME)


def test_the_election_needs_one_lease_and_no_more(render: Callable[..., Objects]) -> None:
    """The Role names the Lease that the server is told; `create` alone cannot be bound to a name."""
    objects = render()
    create, renew = objects["Role", NAME]["rules"]
    assert (create["verbs"], renew["verbs"], renew["resourceNames"]) == (["create"], ["get", "update"], [NAME])
    assert {rule["resources"][0] for rule in (create, renew)} == {"leases"}
    (subject,) = objects["RoleBinding", NAME]["subjects"]
    pod = objects["Deployment", NAME]["spec"]["template"]["spec"]
    assert subject["name"] == pod["serviceAccountName"] == objects["ServiceAccount", NAME]["metadata"]["name"]


@pytest.mark.parametrize(("replicas", "strategy", "evictable"), [(1, "Recreate", 1), (3, "RollingUpdate", 3)])
def test_a_drain_is_never_blocked(replicas: int, strategy: str, evictable: int, render: Callable[..., Objects]) -> None:
    """Stand-bys are never ready: neither a budget nor a rollout may wait for them; and drain refuses emptyDirs."""
    objects = render(replicaCount=replicas)
    assert "emptyDir" not in json.dumps(objects["Deployment", NAME])
    spec = objects["Deployment", NAME]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (replicas, strategy)
    if strategy == "RollingUpdate":
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": replicas}
    budget = objects["PodDisruptionBudget", NAME]["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (evictable, "AlwaysAllow")


def test_ready_is_the_active_replica(render: Callable[..., Objects], tmp_path: Path) -> None:
    """A stand-by lives and is not ready; the paths are the server's own."""
    container = server(render())
    probes = {name: container[name]["httpGet"]["path"] for name in ("readinessProbe", "livenessProbe", "startupProbe")}
    assert probes == {"readinessProbe": "/readyz", "livenessProbe": "/healthz", "startupProbe": "/healthz"}
    app = create_app(Settings(tmp_path, by_id([KEY_OBJECT])))
    assert set(probes.values()) <= {getattr(route, "path", "") for route in app.routes}


@pytest.mark.parametrize(
    ("values", "sources", "ports"),
    [
        ({}, [{"namespaceSelector": {}}], [443, 6443]),
        ({"service": {"type": "NodePort"}}, None, [443, 6443]),
        ({"networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "apiServerPorts": [8443]}},
         [{"ipBlock": {"cidr": "10.0.0.0/8"}}], [8443]),
        ({"election": {"lease": False}, "leases": {"auth": "none"}}, [{"namespaceSelector": {}}], []),
    ],
    ids=["pods", "everybody", "chosen", "nothing goes out"],
)  # fmt: skip
def test_network_policy(
    values: dict[str, Any], sources: list[Any] | None, ports: list[int], render: Callable[..., Objects]
) -> None:
    """In on one port from the sources, out to the API server for the election."""
    spec = render(**values)["NetworkPolicy", NAME]["spec"]
    (ingress,) = spec["ingress"]
    assert (ingress.get("from"), ingress["ports"]) == (sources, [{"protocol": "TCP", "port": "http"}])
    assert [port["port"] for rule in spec["egress"] for port in rule["ports"]] == ports
    assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_tls(render: Callable[..., Objects]) -> None:
    """A Secret turns server, probes, test and monitor to HTTPS; the test pod gets no private key."""
    objects = render(tls={"enabled": True, "secretName": "mine"}, metrics={"serviceMonitor": {"enabled": True}})
    container = server(objects)
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    pod, test = objects["Deployment", NAME]["spec"]["template"]["spec"], objects["Pod", f"{NAME}-test"]["spec"]
    assert {"name": "tls", "secret": {"secretName": "mine"}} in pod["volumes"]
    assert test["volumes"][0]["secret"]["items"] == [{"key": "tls.crt", "path": "tls.crt"}]
    program = test["containers"][0]["args"][0]
    compile(program, "greeting", "exec")
    assert f"https://{NAME}:10080/" in program
    (endpoint,) = objects["ServiceMonitor", NAME]["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]["ca"]["secret"]["name"]) == ("https", "mine")
    assert ("Certificate", NAME) not in objects


def test_cert_manager_fills_the_secret(render: Callable[..., Objects]) -> None:
    """Under every name that clients look for, with the annotations asked for."""
    made = {"issuerName": "ca", "issuerKind": "ClusterIssuer", "secretAnnotations": {"reflector": "true"}}
    objects = render(tls={"enabled": True, "certManager": made})
    spec = objects["Certificate", NAME]["spec"]
    volumes = objects["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "tls", "secret": {"secretName": spec["secretName"]}} in volumes
    assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "ca"}
    assert spec["secretTemplate"] == {"annotations": {"reflector": "true"}}
    hosts = {urlsplit(address).hostname for address in DEFAULT_ADDRESSES}
    assert hosts <= set(spec["dnsNames"])


def test_the_service_has_the_names_and_the_port_that_clients_look_for(render: Callable[..., Objects]) -> None:
    """In kube-system, and in a namespace of one's own."""
    (port,) = render()["Service", NAME]["spec"]["ports"]
    assert {urlsplit(address).port for address in DEFAULT_ADDRESSES} == {port["port"]}
    assert [urlsplit(address).hostname for address in DEFAULT_ADDRESSES] == [
        f"{NAME}.kube-system.svc.cluster.local",
        NAME,
    ]


def test_monitor_scrapes_one_service(render: Callable[..., Objects]) -> None:
    """Also with the legacy name beside, each figure comes once."""
    monitor = {"enabled": True, "interval": "10s", "labels": {"release": "prometheus"}}
    objects = render(metrics={"serviceMonitor": monitor}, **{"global": {"legacyServiceName": True}})
    found = objects["ServiceMonitor", NAME]
    assert found["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = found["spec"]["endpoints"]
    assert (endpoint["path"], endpoint["interval"], endpoint["scheme"]) == ("/metrics", "10s", "http")
    wanted = found["spec"]["selector"]["matchLabels"].items()
    services = [name for (kind, name), item in objects.items() if kind == "Service"]
    assert len(services) == 2
    assert [name for name in services if wanted <= objects["Service", name]["metadata"]["labels"].items()] == [NAME]


def test_persistence(render: Callable[..., Objects]) -> None:
    """Size and class of the claim, which outlives an uninstall; or a claim of one's own."""
    claim = render(persistence={"size": "2Gi", "storageClassName": "fast"})["PersistentVolumeClaim", NAME]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    objects = render(persistence={"existingClaim": "mine"})
    assert ("PersistentVolumeClaim", NAME) not in objects
    volumes = objects["Deployment", NAME]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}} in volumes


def test_where_pods_run_and_what_they_may_take(render: Callable[..., Objects]) -> None:
    """The usual values reach the pod."""
    said: dict[str, Any] = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
    }
    more = {"podLabels": {"l": "1"}, "podAnnotations": {"note": "2"}, "resources": {"limits": {"memory": "1Gi"}}}
    account = {"serviceAccount": {"annotations": {"s": "3"}}, "service": {"annotations": {"t": "4"}}}
    objects = render(
        image={"tag": "9", "pullPolicy": "Always"}, imagePullSecrets=[{"name": "p"}], **said, **more, **account
    )
    template = objects["Deployment", NAME]["spec"]["template"]
    assert {name: template["spec"][name] for name in said} == said
    assert template["spec"]["imagePullSecrets"] == [{"name": "p"}]
    assert (template["metadata"]["labels"]["l"], template["metadata"]["annotations"]["note"]) == ("1", "2")
    container = server(objects)
    assert (container["image"], container["imagePullPolicy"]) == ("windlass/license-server:9", "Always")
    assert container["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "50m", "memory": "96Mi"}}
    assert objects["ServiceAccount", NAME]["metadata"]["annotations"] == {"s": "3"}
    assert objects["Service", NAME]["metadata"]["annotations"] == {"t": "4"}


def test_what_other_charts_call_so_has_its_effect(render: Callable[..., Objects]) -> None:
    """Variables, volumes, probe times, contexts and the spread reach their places beside the chart's own."""
    spread = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    volume, mount = {"name": "more", "configMap": {"name": "m"}}, {"name": "more", "mountPath": "/more"}
    objects = render(
        imagePullSecrets=[{"name": "pull"}],
        extraEnv=[{"name": "TZ", "value": "UTC"}],
        extraVolumes=[volume],
        extraVolumeMounts=[mount],
        startupProbe={"failureThreshold": 90},
        readinessProbe={"periodSeconds": 3},
        livenessProbe={"periodSeconds": 7},
        podSecurityContext={"runAsUser": 7},
        securityContext={"runAsNonRoot": True},
        topologySpreadConstraints=[spread],
    )
    pods = (objects["Deployment", NAME]["spec"]["template"]["spec"], objects["Pod", f"{NAME}-test"]["spec"])
    for pod in pods:
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (7, 10001)
        inner = pod["containers"][0]["securityContext"]
        assert (inner["runAsNonRoot"], inner["readOnlyRootFilesystem"]) == (True, True)
    container = server(objects)
    assert pods[0]["topologySpreadConstraints"] == [spread]
    assert [row["name"] for row in container["env"]][-2:] == ["WINDLASS_LICENSE_ADMIN_TOKEN", "TZ"]
    assert (pods[0]["volumes"][-1], container["volumeMounts"][-1]) == (volume, mount)
    assert [row["name"] for row in pods[0]["volumes"]] == ["data", "keys", "more"]
    assert (container["startupProbe"]["failureThreshold"], container["startupProbe"]["periodSeconds"]) == (90, 1)
    assert (container["readinessProbe"]["periodSeconds"], container["livenessProbe"]["periodSeconds"]) == (3, 7)
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_every_value_has_a_schema_and_every_schema_a_value() -> None:
    """So that a misspelt value is refused wherever it stands; an old name has a description alone."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def check(part: dict[str, Any], value: dict[str, Any], where: str) -> None:
        named = {name for name, inner in part.get("properties", {}).items() if set(inner) != {"description"}}
        assert named == set(value), where
        assert part.get("additionalProperties") is False, where
        for name, inner in value.items():
            if isinstance(inner, dict) and "$ref" not in part["properties"][name]:
                check(part["properties"][name], inner, name)

    check(schema, values, "")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "replicas, as it was called": ({"replicas": 2}, "the value replicas is called replicaCount"),
    "pullSecrets, as they were called": (
        {"image": {"pullSecrets": [{"name": "a"}]}},
        "the value image.pullSecrets is called imagePullSecrets",
    ),
    "a name that is none": ({"fullnameOverride": "1st"}, "fullnameOverride"),
    "a probe's typo": ({"livenessProbe": {"periodSecond": 1}}, "periodSecond"),
    "a security context's typo": ({"securityContext": {"runAsRoot": False}}, "runAsRoot"),
    "a variable without a name": ({"extraEnv": [{"value": "x"}]}, "extraEnv/0"),
    "a volume without a kind": ({"extraVolumes": [{"name": "more"}]}, "extraVolumes/0"),
    "a mount without a path": ({"extraVolumeMounts": [{"name": "more"}]}, "extraVolumeMounts/0"),
    "a spread without its key": ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologySpreadConstraints/0"),
    "a smaller budget": ({"podDisruptionBudget": {"maxUnavailable": 1}}, "'maxUnavailable' not allowed"),
    "a namespace that is none": ({"namespace": "Kube_System"}, "namespace"),
    "a file name instead of PEM": ({"publicKeys": ["public.pem"]}, "publicKeys/0"),
    "a typo inside": ({"tls": {"certManager": {"issuer": "x"}}}, "'issuer' not allowed"),
    "an issuer without TLS": ({"tls": {"certManager": {"issuerName": "x"}}}, "set tls.enabled=true"),
    "replicas without a volume": ({"replicaCount": 2, "persistence": {"enabled": False}}, "or replicaCount=1"),
    "a wrong interval": ({"metrics": {"serviceMonitor": {"interval": "often"}}}, "metrics/serviceMonitor/interval"),
    "a wrong service": ({"service": {"type": "External"}}, "service/type"),
    "too short a lease": ({"leases": {"ttlSeconds": 4}}, "leases/ttlSeconds"),
    "no port of the API server": ({"networkPolicy": {"apiServerPorts": []}}, "networkPolicy/apiServerPorts"),
    "a typo in global": ({"global": {"repositry": "r"}}, "'repositry' not allowed"),
    "a typo in resources": ({"resources": {"limts": {"cpu": 1}}}, "'limts' not allowed"),
    "a resource that is none": ({"resources": {"limits": {"memroy": "1Gi"}}}, "memroy"),
    "a quantity that is none": ({"resources": {"limits": {"memory": "1 GB"}}}, "resources/limits/memory"),
    "a typo": ({"persistance": {"enabled": False}}, "'persistance' not allowed"),
    "two tokens": (
        {"auth": {"adminToken": "a", "existingSecret": "b"}},
        "auth.adminToken and auth.existingSecret are both set",
    ),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_values(values: dict[str, Any], message: str, helm: Helm) -> None:
    """A wrong value is refused with its name."""
    done = helm("template", "release", str(CHART), values={"publicKeys": [KEY], **values})
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("flags", [(), ("-f", str(CHART / "ci" / "open-values.yaml"))], ids=["default", "open"])
def test_lint(flags: tuple[str, ...], helm: Helm) -> None:
    """`helm lint --strict` has nothing to say."""
    done = helm("lint", "--strict", str(CHART), *flags)
    assert done.returncode == 0, done.stdout
