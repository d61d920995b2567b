"""How a license server is read from its Deployment, and when a new one runs."""

from __future__ import annotations

import asyncio

import pytest
from windlass_client.licenses import server_of
from windlass_kubectl.licensing import server
from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.server import rolled_out

TOKEN = {"name": "WINDLASS_LICENSE_ADMIN_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def a_deployment(env=(), args=("serve",), **status):
    container = {"image": "windlass/license-server:1", "imagePullPolicy": "Never", "args": list(args), "env": list(env)}
    pod = {"containers": [container], "imagePullSecrets": [{"name": "pull"}]}
    return {
        "metadata": {"name": "windlass-license-server", "namespace": "kube-system", "generation": 2},
        "spec": {"replicas": 2, "template": {"spec": pod}},
        "status": status,
    }


def test_what_the_deployment_says_of_its_server():
    found = server_of(
        a_deployment([{"name": "TMPDIR", "value": "/data"}, TOKEN], ["serve", "--tls-dir=/x"], readyReplicas=1)
    )
    assert (found.namespace, found.image, found.pull_policy, found.pull_secrets) == (
        "kube-system", "windlass/license-server:1", "Never", ("pull",)
    )  # fmt: skip
    assert (found.token, found.https, found.ready, found.replicas) == (("s", "k"), True, 1, 2)
    assert (str(found), found.trusted) == ("kube-system/windlass-license-server", "windlass-license-server-trusted")
    open_ = server_of(a_deployment())
    assert (open_.token, open_.https, open_.ready) == (None, False, 0)


def test_several_servers_are_named_to_choose_from(monkeypatch):
    """By namespace and name: a value of the chart may give another name."""
    other = a_deployment()
    other["metadata"] |= {"name": "spare", "namespace": "team"}
    monkeypatch.setattr(server, "find_all", lambda _: asyncio.sleep(0, [server_of(other), server_of(a_deployment())]))
    with pytest.raises(LicensingError, match=r"kube-system/windlass-license-server, team/spare; choose .* -n"):
        asyncio.run(server.find(None))


@pytest.mark.parametrize(
    ("status", "done"),
    [
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, True),
        ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2}, False),
        ({}, False),
    ],
    ids=["one ready, one stands by", "not seen yet", "an old pod is left", "none ready", "nothing known"],
)
def test_a_rollout_is_over_when_only_new_pods_run_and_one_is_ready(status, done):
    assert rolled_out(a_deployment(**status)) is done
