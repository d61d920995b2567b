"""The license server's election against a real API server, with the rights that its chart gives and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from windlass_base.kube.lease import LeaseName
from windlass_base.kube.service_account import KubeApi, KubeError
from windlass_license.election.kube_lease import TIMES, KubeLease

pytestmark = pytest.mark.apiserver

NAME = "windlass-license-server"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": NAME},
    "rules": [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [NAME],
            "verbs": ["get", "update"],
        },
    ],
}


class Clock:
    """Seconds in the hands of the test."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api(apiserver, namespace: str, tmp_path: Path) -> Iterator[KubeApi]:
    """A client that is the chart's service account."""
    apiserver.kubectl("create", "serviceaccount", NAME, "-n", namespace)
    assert apiserver.apply(ROLE, "-n", namespace).returncode == 0
    account = f"--serviceaccount={namespace}:{NAME}"
    apiserver.kubectl("create", "rolebinding", NAME, f"--role={NAME}", account, "-n", namespace)
    token = apiserver.kubectl("create", "token", NAME, "-n", namespace).stdout
    (tmp_path / "token").write_text(token)
    with closing(KubeApi(apiserver.url, tmp_path / "token", apiserver.ca_file)) as api:
        yield api


def test_take_renew_take_over_and_release(api: KubeApi, apiserver, namespace: str) -> None:
    """The whole life of the Lease, as the API server and kubectl see it."""

    def replica(identity: str) -> tuple[KubeLease, Clock]:
        clock = Clock()
        return KubeLease(api, LeaseName(namespace, NAME, identity), TIMES, clock), clock

    def holder() -> object:
        return apiserver.get("lease", NAME, "-n", namespace)["spec"].get("holderIdentity")

    (one, _), (two, clock_two) = replica("pod-a"), replica("pod-b")
    assert one.attempt()
    assert not two.attempt()
    assert (holder(), two.holder()) == ("pod-a", "pod-a")
    assert one.attempt()
    assert not two.attempt()
    clock_two.now += 16
    assert two.attempt()
    assert holder() == "pod-b"
    assert not one.attempt()
    two.release()
    assert one.attempt()
    spec = apiserver.get("lease", NAME, "-n", namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("pod-a", 2, 15)


def test_without_the_right_the_reason_is_reported(api: KubeApi, namespace: str) -> None:
    """A Lease of another name is not this server's to take."""
    with pytest.raises(KubeError, match=r'403 leases.*"other" is forbidden'):
        api.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/other")
