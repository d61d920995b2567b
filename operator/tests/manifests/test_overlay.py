"""The escape hatch: what it may change, and the sentence with which it refuses what could raise a privilege."""

from __future__ import annotations

import pytest
from windlass_operator.manifests.metadata import container_security
from windlass_operator.manifests.overlay import judge, laid_over

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
}


@pytest.mark.parametrize("wish", RAISING.values(), ids=RAISING.keys())
def test_what_could_raise_a_privilege_is_refused(wish):
    """One sentence that names the place."""
    with pytest.raises(ValueError, match=r"^spec\.podTemplate\.spec"):
        judge(wish)


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
    judge(wish)
    pod = laid_over(POD, wish)
    server, side = pod["containers"]
    assert pod["priorityClassName"] == "high"
    assert pod["tolerations"] == [{"key": "a"}, {"key": "b"}]
    assert (server["image"], side["image"]) == ("i", "s")
    assert server["env"] == [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]


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
