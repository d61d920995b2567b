"""The test cluster's enforcer of NetworkPolicy: a real API server, a real packet filter, and pods that try ports.

The kind cluster alone has pods; here each pod is an object with an address and a network namespace that has it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.manifests.pod import PodShape
from windlass_testbed import machine

sys.path.insert(0, str(Path(__file__).parent))

from control_plane import ApiServer, find_binary
from pod_network import Network, network
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver
PODS = {  # pod → its address; those of 10.77.1.0/24 are another node's
    "web": "10.77.0.2",
    "near": "10.77.0.3",
    "other": "10.77.0.4",
    "far": "10.77.1.2",
    "head": "10.77.0.5",
    "follower": "10.77.0.6",
    "newborn": "10.77.0.9",
}
HOME = {"web": "net-a", "near": "net-a", "other": "net-b", "far": "net-b", "head": "net-a", "follower": "net-a"}
LABELS = {"web": {"app": "web"}, "near": {"app": "near", "role": "client"}, "other": {"role": "client"}, "far": {}}
NAMED = {"web": [{"name": "http", "containerPort": 80}], "near": [{"name": "dns", "containerPort": 53}]}
GROUP_PORTS = (8501, 8502, 8503, 29501, 6379, 8265, 10001, 10002, 43210)
LISTENING = {
    "web": (80, 81, 90, 8080),
    "near": (80, 53),
    "head": GROUP_PORTS,
    "follower": GROUP_PORTS,
    "newborn": (80,),
    "other": (80,),
}


@dataclass(frozen=True)
class Bed:
    """The API server, the network, and how an object comes and goes."""

    server: ApiServer
    network: Network

    def apply(self, *rows: Mapping[str, Any]) -> None:
        self.server.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": rows}))

    def settles(self, expected: Mapping[str, str]) -> None:
        """Every `source → target:port` says what is expected of it."""
        with suppress(AssertionError):
            wait_until(lambda: self._asked(expected) == expected)
        assert self._asked(expected) == expected

    def _asked(self, rows: Iterable[str]) -> dict[str, str]:
        by_source: dict[str, list[tuple[str, tuple[str, int]]]] = {}
        for row in rows:
            source, place = row.split(" → ")
            target, port = place.split(":")
            by_source.setdefault(source, []).append((row, (target, int(port))))
        return {
            row: said
            for source, asked in by_source.items()
            for (row, _), said in zip(asked, self.network.ask(source, [place for _, place in asked]), strict=True)
        }


def pod(name: str, namespace: str, labels: Mapping[str, str], ports: Sequence[Mapping[str, Any]] = ()) -> dict:
    node = "node-1" if PODS[name].startswith("10.77.0.") else "node-2"
    container = {"name": "c", "image": "none", "ports": list(ports)}
    meta = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": node, "containers": [container], "automountServiceAccountToken": False},
    }


def policy(name: str, namespace: str = "net-a", **spec: Any) -> dict:
    meta = {"name": name, "namespace": namespace}
    spec.setdefault("podSelector", {"matchLabels": {"app": "web"}})
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def group() -> tuple[dict, dict[str, str]]:
    """The policy of a group as the operator makes it, and the labels of the group's pods."""
    spec = {
        "model": {"id": "m", "source": {"pvc": {"claimName": "models", "path": "m"}}},
        "license": {"required": False},
    }
    owner = LLMService.model_validate({"metadata": {"name": "duo", "namespace": "net-a"}, "spec": spec})
    shape = PodShape(image="none", command=("none",), args=(), cpu="1", memory="1Gi", shm="1Gi", gpus=1, env=())
    made = group_objects(owner, GroupShape(shape, 2, "Native"), 1)
    found = next(dict(row) for row in made if row["kind"] == "NetworkPolicy")
    del found["metadata"]["ownerReferences"]
    members = next(row for row in made if row["kind"] == "StatefulSet")
    return found, members["spec"]["template"]["metadata"]["labels"]


def give_address(server: ApiServer, name: str) -> None:
    status = {"status": {"phase": "Running", "podIP": PODS[name], "podIPs": [{"ip": PODS[name]}]}}
    words = ("-n", HOME[name], "patch", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    server.kubectl(*words)


@contextmanager
def agent(bed: Bed, program: Path, log: Path) -> Iterator[None]:
    """The enforcer of node-1: it reaches the API server from here, and writes to the packet filter of the namespace."""
    nft = " ".join([*bed.network.inside("node"), "/usr/sbin/nft"])
    command = [str(program), "-node=node-1", f"-kubeconfig={bed.server.kubeconfig}", f"-nft={nft}"]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(HANG_S)


@pytest.fixture(scope="module")
def bed(bare_apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    machine.ensure_packages()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "spec": {"podCIDR": "10.77.0.0/24"}}
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
        for name in ("net-a", "net-b")
    ]
    members = group()[1]
    labels = {**LABELS, "head": members, "follower": members}
    with network(PODS, LISTENING) as made:
        found = Bed(bare_apiserver, made)
        found.apply(node, *spaces)
        found.apply(*(pod(name, HOME[name], labels[name], NAMED.get(name, ())) for name in HOME))
        for name in HOME:
            give_address(bare_apiserver, name)
        with agent(found, find_binary("policyagent"), tmp_path_factory.mktemp("agent") / "log"):
            yield found
        bare_apiserver.kubectl("delete", "pods", "--all", "--all-namespaces", "--force", "--grace-period=0")


@pytest.fixture(autouse=True)
def _no_policies_at_the_end(bed: Bed) -> Iterator[None]:
    yield
    bed.server.kubectl("delete", "networkpolicies", "--all", "--all-namespaces")


OPEN = {"near → web:80": "open", "other → web:80": "open", "far → web:80": "open", "node → web:80": "open"}
CLIENTS = {"podSelector": {"matchLabels": {"role": "client"}}}
OF_NET_B = {"namespaceSelector": {"matchLabels": {"team": "net-b"}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"ingress": []},
            {"near → web:80": "silent", "other → web:80": "silent", "far → web:80": "silent", "web → web:80": "open"},
            id="nobody-but-the-pod-itself",
        ),
        pytest.param({"ingress": [{}]}, OPEN, id="everybody"),
        pytest.param(
            {"ingress": [{"from": [CLIENTS]}]},
            {"near → web:80": "open", "other → web:80": "silent", "far → web:80": "silent"},
            id="pods-of-the-own-namespace",
        ),
        pytest.param(
            {"ingress": [{"from": [OF_NET_B]}]},
            {"near → web:80": "silent", "other → web:80": "open", "far → web:80": "open"},
            id="pods-of-another-namespace",
        ),
        pytest.param(
            {"ingress": [{"from": [{**CLIENTS, **OF_NET_B}]}]},
            {"near → web:80": "silent", "other → web:80": "open", "far → web:80": "silent"},
            id="some-pods-of-another-namespace",
        ),
        pytest.param(
            {"ingress": [{"from": [CLIENTS, OF_NET_B]}]},
            {"near → web:80": "open", "other → web:80": "open", "far → web:80": "open"},
            id="either-of-two-peers",
        ),
        pytest.param(
            {"ingress": [{"from": [{"namespaceSelector": {}}]}]},
            {"near → web:80": "open", "other → web:80": "open", "far → web:80": "open"},
            id="pods-of-every-namespace",
        ),
        pytest.param(
            {"ingress": [{"from": [{"ipBlock": {"cidr": "10.77.0.0/16", "except": ["10.77.1.0/24"]}}]}]},
            {"near → web:80": "open", "other → web:80": "open", "far → web:80": "silent"},
            id="a-block-of-addresses-with-a-hole",
        ),
        pytest.param(
            {"ingress": [{"ports": [{"port": "http"}, {"port": 8080}]}]},
            {"near → web:80": "open", "near → web:8080": "open", "near → web:81": "silent", "near → web:90": "silent"},
            id="a-port-by-its-name-and-one-by-its-number",
        ),
        pytest.param(
            {"ingress": [{"ports": [{"port": 80, "endPort": 85}]}]},
            {"near → web:81": "open", "near → web:82": "refused", "near → web:90": "silent"},
            id="a-range-of-ports",
        ),
        pytest.param(
            {"ingress": [{"ports": [{"port": 80, "protocol": "UDP"}]}, {"ports": [{"port": 81}], "from": [CLIENTS]}]},
            {"near → web:80": "silent", "near → web:81": "open", "other → web:81": "silent"},
            id="a-port-of-another-protocol-is-another-port",
        ),
        pytest.param(
            {"policyTypes": ["Egress"], "egress": []},
            {"web → near:80": "silent", "web → far:80": "silent", "near → web:80": "open"},
            id="no-way-out-and-every-way-in",
        ),
        pytest.param(
            {"policyTypes": ["Egress"], "egress": [{"to": [CLIENTS], "ports": [{"port": "dns"}]}]},
            {"web → near:53": "open", "web → near:80": "silent", "web → other:80": "silent"},
            id="out-to-a-named-port-of-the-peer",
        ),
    ],
)
def test_a_policy_lets_through_what_it_names(bed: Bed, spec, expected):
    bed.apply(policy("one", **spec))
    bed.settles(expected)


def test_pods_that_no_policy_selects_are_reached_by_everybody(bed: Bed):
    bed.apply(policy("one", "net-b", podSelector={}, ingress=[]))
    bed.settles({**OPEN, "near → other:80": "silent"})


def test_policies_add_to_each_other(bed: Bed):
    bed.apply(policy("one", ingress=[{"from": [CLIENTS]}]), policy("two", ingress=[{"ports": [{"port": 81}]}]))
    bed.settles({"near → web:80": "open", "other → web:80": "silent", "other → web:81": "open"})


def test_a_packet_needs_both_ends(bed: Bed):
    bed.apply(
        policy("in", ingress=[{"ports": [{"port": 80}, {"port": 81}]}]),
        policy(
            "out",
            podSelector={"matchLabels": {"app": "near"}},
            policyTypes=["Egress"],
            egress=[{"ports": [{"port": 80}]}],
        ),
    )
    bed.settles(
        {"near → web:80": "open", "near → web:81": "silent", "near → web:90": "silent", "other → web:81": "open"}
    )


def test_a_label_and_a_deletion_count_at_once(bed: Bed):
    bed.apply(policy("one", ingress=[{"from": [CLIENTS]}]))
    bed.settles({"near → web:80": "open", "other → web:80": "silent"})
    bed.server.kubectl("-n", "net-a", "label", "pod", "near", "role-")
    bed.settles({"near → web:80": "silent"})
    bed.server.kubectl("-n", "net-a", "label", "pod", "near", "role=client")
    bed.settles({"near → web:80": "open"})
    bed.server.kubectl("-n", "net-a", "delete", "networkpolicy", "one")
    bed.settles({"other → web:80": "open"})


def test_an_address_whose_pod_is_not_known_yet_takes_nothing(bed: Bed):
    """A policy that came before its pod isolates it from its first packet on."""
    bed.settles({"near → newborn:80": "silent", "far → newborn:80": "silent", "node → newborn:80": "open"})


def test_a_group_as_the_operator_makes_it_is_for_members_alone(bed: Bed):
    declared = {8501, 8502}
    bed.apply(group()[0])
    for source in ("near", "other", "far"):
        bed.settles({f"{source} → head:{port}": "open" if port in declared else "silent" for port in GROUP_PORTS})
        bed.settles({f"{source} → follower:{port}": "open" if port in declared else "silent" for port in GROUP_PORTS})
    for source, target in (("head", "follower"), ("follower", "head"), ("node", "head"), ("head", "head")):
        bed.settles({f"{source} → {target}:{port}": "open" for port in GROUP_PORTS})
