"""What the replicas of a service with keys get to hold limits together, and who gets nothing."""

import pytest
from windlass_operator.manifests.peers import has_peers, peer_objects, peers_variable

from .test_golden import ON_GPUS, REPLACE, a_service, deployment

KEYED = {"apiKeysSecret": "keys"}


def test_without_keys_there_are_none() -> None:
    """There is no limit to hold."""
    owner = a_service().build()
    assert not has_peers(owner)
    assert peer_objects(owner, [], heads_only=False, closed=True) == []


def test_pods_get_the_name_of_the_service() -> None:
    """Its addresses are the replicas."""
    owner = a_service().with_spec(expose=KEYED).build()
    headless, _ = peer_objects(owner, [], heads_only=False, closed=True)
    meta = headless["metadata"]
    assert peers_variable(owner) == ("WINDLASS_PEERS", f"{meta['name']}.{meta['namespace']}.svc:8504")
    assert headless["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("heads_only", [False, True])
def test_replicas_alone_reach_the_port(heads_only: bool) -> None:
    """Heads alone where a replica has several pods; every declared port stays open."""
    owner = a_service().with_spec(expose=KEYED).build()
    pods = [deployment(owner, ON_GPUS, REPLACE, {}, 2)]
    headless, policy = peer_objects(owner, pods, heads_only=heads_only, closed=True)
    declared, among = policy["spec"]["ingress"]
    assert [row["port"] for row in declared["ports"]] == [8501, 8502]
    assert among["ports"] == [{"port": 8504, "protocol": "TCP"}]
    assert among["from"] == [{"podSelector": {"matchLabels": headless["spec"]["selector"]}}]
    assert ("apps.kubernetes.io/pod-index" in headless["spec"]["selector"]) is heads_only


def test_an_installation_without_policies_gets_none() -> None:
    """The Service stays."""
    owner = a_service().with_spec(expose=KEYED).build()
    assert [row["kind"] for row in peer_objects(owner, [], heads_only=False, closed=False)] == ["Service"]
