"""Attacks on whose lease it is (finding 5), through the server's HTTP interface, with tokens as the default asks for.

The API server behind it answers TokenReviews as Kubernetes does; a real one is asked in `tests/apiserver`.
"""

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi.testclient import TestClient
from windlass_base.kube.service_account import KubeApi
from windlass_license.cluster.callers import Callers
from windlass_license.cluster.identity import AUDIENCE
from windlass_license.http.app import create_app
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import License, LicensedGpu
from windlass_license.settings import Settings

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ADMIN = "adm1n"


class Cluster(KubeApi):
    """Reviews tokens of the form that `token` makes: pod `name` of namespace `space` with one GPU."""

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """What Kubernetes answers."""
        if body is None:
            limits = {"nvidia.com/gpu": "1"}
            name = path.rsplit("/", 1)[1]
            return 200, {
                "metadata": {"uid": f"uid-{name}"},
                "spec": {"containers": [{"resources": {"limits": limits}}]},
            }
        signature = body["spec"]["token"].rsplit(".", 1)[1]
        if not signature.startswith("signed-"):
            return 201, {"status": {"authenticated": False}}
        space, name = signature.removeprefix("signed-").split("_")
        extra = {
            "authentication.kubernetes.io/pod-name": [name],
            "authentication.kubernetes.io/pod-uid": [f"uid-{name}"],
        }
        user = {"username": f"system:serviceaccount:{space}:default", "extra": extra}
        return 201, {"status": {"authenticated": True, "user": user, "audiences": [AUDIENCE]}}


def token(space: str, name: str, signature: str = "signed") -> dict[str, str]:
    """The header with a pod's token."""
    claims = base64.urlsafe_b64encode(json.dumps({"aud": [AUDIENCE], "exp": time.time() + 3600}).encode()).decode()
    return {"Authorization": f"Bearer e30.{claims.rstrip('=')}.{signature}-{space}_{name}"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A server with a license of three GPUs, two at a time."""
    settings = Settings(tmp_path / "data", by_id([KEY.public_key()]), admin_token=ADMIN)
    app = create_app(settings, callers=Callers(Cluster("http://nowhere", tmp_path / "none")))
    with TestClient(app, base_url="http://license") as client:
        now = datetime.now(UTC)
        rows = tuple(LicensedGpu(f"GPU-{n}", "L20", now, now + timedelta(days=1)) for n in range(3))
        blob = sign(License("1", "c", 2, rows), KEY)
        shown = {"Authorization": f"Bearer {ADMIN}"}
        assert client.post("/ls", files={"file": blob}, headers=shown).status_code == 200
        yield client


def lease(client: TestClient, gpus: list[str], shown: dict[str, str], uid: str = "said") -> tuple[int, dict[str, Any]]:
    """Ask, and say any uid in the body."""
    holder = {"namespace": "said", "pod": "said", "uid": uid, "service": "s"}
    reply = client.post("/v1/leases", json={"gpus": gpus, "holder": holder}, headers=shown)
    return reply.status_code, reply.json()


def test_nobody_without_a_token(client: TestClient) -> None:
    """No token, an invented one, and one of another kind lease nothing."""
    for shown in ({}, {"Authorization": "Bearer x"}, token("team-a", "a", "invented")):
        status, answer = lease(client, ["GPU-0"], shown)
        assert (status, answer["reason"]) == (401, "Unauthorized")
        assert client.delete("/v1/leases/x", headers=shown).status_code == 401


def test_a_body_says_nothing_about_who_asks(client: TestClient) -> None:
    """The uid of a neighbour in the body renews nothing, and gives no lease id away."""
    _, mine = lease(client, ["GPU-0"], token("team-a", "a"))
    _, his = lease(client, ["GPU-0"], token("team-b", "b"), uid="uid-a")
    assert (his["state"], his["lease"] != mine["lease"]) == ("granted", True)
    assert "team-b/b" in str(his["message"])


def test_a_neighbour_ends_no_lease(client: TestClient) -> None:
    """DELETE with the right id and another pod's token changes nothing."""
    _, mine = lease(client, ["GPU-0"], token("team-a", "a"))
    where = f"/v1/leases/{mine['lease']}"
    assert client.delete(where, headers=token("team-b", "b")).status_code == 204
    assert lease(client, ["GPU-0"], token("team-a", "a"))[1]["state"] == "renewed"
    assert client.delete(where, headers=token("team-a", "a")).status_code == 204
    assert lease(client, ["GPU-0"], token("team-a", "a"))[1]["state"] == "granted"


def test_one_pod_cannot_take_the_limit(client: TestClient) -> None:
    """A pod with one GPU leases one, at once or one after the other."""
    thief = token("team-b", "thief")
    assert lease(client, ["GPU-0", "GPU-1"], thief)[1]["reason"] == "NotRequested"
    assert lease(client, ["GPU-0"], thief)[0] == 200
    status, answer = lease(client, ["GPU-1"], thief)
    assert (status, answer["reason"]) == (403, "NotRequested")
    assert "requests 1 GPU of Kubernetes and asks to lease 2" in str(answer["message"])
    assert lease(client, ["GPU-2"], token("team-a", "a"))[0] == 200


def test_others_are_a_number(client: TestClient) -> None:
    """Neither a refusal nor the open view names a pod, a namespace or a UUID of others."""
    lease(client, ["GPU-0"], token("secret-space", "secret-a"))
    lease(client, ["GPU-1"], token("secret-space", "secret-b"))
    _, refused = lease(client, ["GPU-2"], token("team-b", "b"))
    assert (refused["reason"], refused["inUse"], refused["holders"]) == ("LimitReached", 2, 2)
    assert "secret" not in json.dumps(refused)
    assert "GPU-" not in client.get("/ls/view").text
    assert client.get("/ls/view", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert "GPU-2" in client.get("/ls/view", headers={"Authorization": f"Bearer {ADMIN}"}).text
