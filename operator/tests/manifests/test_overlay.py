"""The escape hatch: what it may change, and the sentence with which it refuses what could raise a privilege."""

from __future__ import annotations

import pytest
from windlass_api.crd.pod_template import PodTemplateSpec
from windlass_operator.errors import UserError
from windlass_operator.manifests.metadata import container_security
from windlass_operator.manifests.overlay import judge, laid_over
from windlass_operator.reconcile.desired_state import must_be_allowed, parse_service
from windlass_operator.settings import Settings
from windlass_testbed.cases import every_case

POD = {
    "securityContext": {"runAsNonRoot": True},
    "tolerations": [{"key": "a"}],
    "containers": [
        {
            "name": "server",
            "image": "i",
            "env": [{"name": "A", "value": "1"}],
            "volumeMounts": [{"name": "model", "mountPath": "/data/model", "readOnly": True}],
        }
    ],
    "volumes": [{"name": "model", "hostPath": {"path": "/m"}}],
}
SETTINGS = Settings("windlass/server", "1", "windlass/operator:1")


def in_server(**fields: object) -> dict:
    return {"containers": [{"name": "server", **fields}]}


def in_volume(**kind: object) -> dict:
    return {"volumes": [{"name": "x", **kind}]}


def affine(**term: object) -> dict:
    terms = [{"topologyKey": "zone", **term}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


RAISING = {
    "the host's network": {"hostNetwork": True},
    "the host's processes": {"hostPID": True},
    "a service account": {"serviceAccountName": "admin"},
    "a token": {"automountServiceAccountToken": True},
    "another user": {"securityContext": {"runAsUser": 0}},
    "a node of its choice past the scheduler": {"nodeName": "control-plane"},
    "a container's own security": {"containers": [{"name": "server", "securityContext": {"privileged": True}}]},
    "a device": {"containers": [{"name": "server", "volumeDevices": []}]},
    "an init container's own security": {"initContainers": [{"name": "x", "securityContext": {}}]},
    "a port of the node": {"containers": [{"name": "server", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
    "a directory of the node": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
    "an NFS export": {"volumes": [{"name": "x", "nfs": {"server": "s", "path": "/"}}]},
    "a token in a volume": {"volumes": [{"name": "x", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
    "containers that are no list": {"containers": {"name": "server"}},
    "a container without a name": {"containers": [{"image": "x"}]},
    "a field nobody knows": {"ephemeralContainers": []},
    "a certificate of the pod": in_volume(projected={"sources": [{"podCertificate": {"signerName": "a/b"}}]}),
    "the trust bundles of the cluster": in_volume(projected={"sources": [{"clusterTrustBundle": {"path": "a"}}]}),
    "a driver of its choice": in_volume(csi={"driver": "secrets-store.csi.k8s.io"}),
    "a claim that names its volume": in_volume(ephemeral={"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {}, "volumeName": "another's"}}}),
    "a claim that copies another": in_volume(ephemeral={"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {}, "dataSourceRef": {"kind": "x", "name": "y"}}}}),
    "a claim with words for its provisioner": in_volume(ephemeral={"volumeClaimTemplate": {
        "metadata": {"annotations": {"nfs.io/storage-path": "../.."}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}}),
    "a probe of another address": in_server(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 10250}}),
    "a connection to another address": in_server(startupProbe={"tcpSocket": {"host": "10.0.0.1", "port": 22}}),
    "a hook to another address": in_server(lifecycle={"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
    "a connecting hook": in_server(lifecycle={"postStart": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}}),
    "mounts that reach the node": in_server(volumeMounts=[
        {"name": "x", "mountPath": "/x", "mountPropagation": "Bidirectional"}]),
    "the model's volume replaced": {"volumes": [{"name": "model", "emptyDir": {}}]},
    "the license token's volume replaced": {"volumes": [{"name": "license", "emptyDir": {}}]},
    "the model covered": in_server(volumeMounts=[{"name": "x", "mountPath": "/data/model"}]),
    "the model covered, spelt otherwise": in_server(volumeMounts=[{"name": "x", "mountPath": "//data/./model/"}]),
    "a part of the model covered": in_server(volumeMounts=[{"name": "x", "mountPath": "/data/model/tokenizer"}]),
    "what is above the model covered": in_server(volumeMounts=[{"name": "x", "mountPath": "/data"}]),
    "keeping all neighbours off a zone": affine(namespaceSelector={}),
    "keeping one neighbour off a zone": affine(namespaces=["team-b"]),
    "a list for a name": {"priorityClassName": ["high"]},
    "affinity without an end": {"affinity": {"affinity": {"affinity": {}}}},
}  # fmt: skip


def service_with(**template: object) -> dict:
    model = {"id": "m", "source": {"pvc": {"claimName": "models", "path": "m"}}}
    return {"metadata": {"name": "a", "namespace": "b"}, "spec": {"model": model, "podTemplate": template}}


def refusal(**template: object) -> str:
    """What the operator says of such a service; empty when it takes it."""
    try:
        must_be_allowed(parse_service(service_with(**template)), SETTINGS)
    except UserError as error:
        assert error.reason == "Rejected"
        return str(error)
    return ""


@every_case("wish", RAISING.values(), ids=RAISING.keys())
def test_what_could_raise_a_privilege_is_refused(wish):
    """One sentence that names the place."""
    assert refusal(spec=wish).startswith("spec.podTemplate.spec.")


NODE_ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/server",
    "cdi.k8s.io/gpus",
    "io.kubernetes.cri-o.Devices",
    "io.katacontainers.config.hypervisor.path",
    "k8s.v1.cni.cncf.io/networks",
    "v1.multus-cni.io/default-network",
    "sidecar.istio.io/userVolume",
    "K8S.IO/x",
)


@pytest.mark.parametrize("key", NODE_ANNOTATIONS)
def test_an_annotation_that_nodes_act_on_needs_the_administrator(key):
    """Refused by name, and taken where the installation allows it."""
    assert refusal(annotations={key: "x"}).startswith(f"spec.podTemplate.annotations[{key}] is not allowed")
    judge(PodTemplateSpec(annotations={key: "x"}), [key])
    judge(PodTemplateSpec(annotations={key: "x"}), [f"{key[:-1]}*"])


@pytest.mark.parametrize("key", ["team", "example.com/scrape", "prometheus.io/scrape", "sidecar.istio.io/inject",
                                 "cluster-autoscaler.kubernetes.io/safe-to-evict", "notk8s.io/x"])  # fmt: skip
def test_other_annotations_pass(key):
    assert refusal(annotations={key: "x"}) == ""


def test_rows_are_merged_by_their_key_and_the_rest_is_added_or_replaced():
    """A side container is added, the server's own keeps what was not spoken of."""
    wish = {
        "priorityClassName": "high",
        "tolerations": [{"key": "b"}],
        "containers": [
            {"name": "server", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
            {"name": "side", "image": "s"},
        ],
    }
    assert refusal(spec=wish) == ""
    pod = laid_over(POD, wish)
    server, side = pod["containers"]
    assert pod["priorityClassName"] == "high"
    assert pod["tolerations"] == [{"key": "a"}, {"key": "b"}]
    assert (server["image"], side["image"]) == ("i", "s")
    assert server["env"] == [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]


def test_ports_are_merged_by_number_and_protocol():
    """Two of one number stay two; one without a protocol is TCP's, and lays over ours."""
    ports = [{"name": "http", "containerPort": 8501, "protocol": "TCP"}]
    pod = {**POD, "containers": [{**POD["containers"][0], "ports": ports}]}
    wish = [
        {"containerPort": 9000, "name": "a", "protocol": "TCP"},
        {"containerPort": 9000, "name": "b", "protocol": "UDP"},
        {"containerPort": 8501, "name": "web"},
    ]
    (server,) = laid_over(pod, in_server(ports=wish))["containers"]
    assert server["ports"] == [{"name": "web", "containerPort": 8501, "protocol": "TCP"}, *wish[:2]]


def test_a_spread_of_the_same_keys_lays_over_ours():
    """Kubernetes refuses two rows of one key, and would name a list that nobody wrote."""
    own = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    pod = {**POD, "topologySpreadConstraints": [own]}
    other = {**own, "whenUnsatisfiable": "DoNotSchedule"}
    merged = laid_over(pod, {"topologySpreadConstraints": [{**own, "maxSkew": 2}, other]})
    assert merged["topologySpreadConstraints"] == [{**own, "maxSkew": 2}, other]


def test_a_key_twice_in_the_pod_template_is_left_for_the_api_server_to_refuse():
    """One of them would else be lost without a word. What the operator has in that list stays."""
    twice = [{"containerPort": 9000, "name": "a"}, {"containerPort": 9000, "name": "b", "protocol": "TCP"}]
    mounts = [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/a"}]
    (server,) = laid_over(POD, in_server(ports=twice, volumeMounts=mounts))["containers"]
    assert server["ports"] == twice
    assert server["volumeMounts"] == [*POD["containers"][0]["volumeMounts"], *mounts]


def test_every_container_keeps_our_security_context():
    """Those that the wish brings, too."""
    pod = laid_over(POD, {"containers": [{"name": "side"}], "initContainers": [{"name": "first"}]})
    assert all(row["securityContext"] == container_security() for row in pod["containers"] + pod["initContainers"])
    assert pod["securityContext"] == POD["securityContext"]
    assert pod["automountServiceAccountToken"] is False


def test_the_model_stays_read_only_wherever_it_is_mounted():
    """A second mount of the model's volume cannot be written either."""
    mounts = [{"name": "model", "mountPath": "/again", "readOnly": False}]
    pod = laid_over(POD, {"containers": [{"name": "server", "volumeMounts": mounts}]})
    assert all(mount["readOnly"] is True for mount in pod["containers"][0]["volumeMounts"])


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_the_models_claim_stays_read_only_under_another_name(kind):
    """Two volumes may name one claim; each mount of either is for reading."""
    claim = {"persistentVolumeClaim": {"claimName": "models"}}
    pod = {**POD, "volumes": [{"name": "model", **claim}]}
    mounts = [
        {"name": "again", "mountPath": "/w", "subPath": "m", "readOnly": False},
        {"name": "own", "mountPath": "/o"},
    ]
    wish = {
        kind: [{"name": "side", "volumeMounts": mounts}],
        "volumes": [{"name": "again", **claim}, {"name": "own", "persistentVolumeClaim": {"claimName": "other"}}],
    }
    rows = next(row for row in laid_over(pod, wish)[kind] if row["name"] == "side")["volumeMounts"]
    assert [row.get("readOnly", False) for row in rows] == [True, False]


def test_the_cache_is_never_on_the_models_claim():
    """The operator says it where the API server's rule is not yet the newest."""
    service = service_with()
    service["spec"]["cache"] = {"pvc": "models"}
    with pytest.raises(UserError, match=r"^spec\.cache names models, the claim of spec\.model\.source itself"):
        parse_service(service)


def test_nothing_wished_is_nothing_changed():
    assert laid_over(POD, {})["volumes"] == POD["volumes"]


@pytest.mark.parametrize(
    "row",
    [
        {"volumeMounts": "x"},
        {"volumeMounts": [5]},
        {"volumeMounts": [{"mountPath": []}]},
        {"env": [{"name": {}}]},
        {"ports": None},
    ],
    ids=repr,
)
def test_rows_of_the_wrong_kind_are_left_for_the_api_server_to_refuse(row):
    merged = laid_over(POD, {"containers": [{"name": "server", **row}]})
    assert {key: merged["containers"][0][key] for key in row} == row
