"""References without a key, stored under an earlier CRD, stand in the way of no later edit; new ones are refused."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import yaml
from windlass_testbed.waiting import wait_until

from .test_crd import PVC, a_service

REFERENCE = "spec.env[0].valueFrom.secretKeyRef.key: Required value"
# A copy of the CRD with names of its own: kubectl takes a bare `llmservices` of two groups for either of them.
GROUP = "keys.windlass.dev"
NAMES = {"kind": "KeyedLLMService", "plural": "keyedllmservices", "singular": "keyedllmservice"}
RESOURCE = f"{NAMES['plural']}.{GROUP}"
DOWNLOAD = {"hub": "modelscope", "name": "qwen/Qwen2-7B-Instruct", "tokenSecret": {"name": "hub"}}
SPEC = {
    "model": {"id": "m", "source": PVC, "download": DOWNLOAD},
    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
}


def the_crd(default: str | None = None, *, required: bool = False) -> str:
    """The committed CRD under other names, with keys as they are, optional, or filled in."""
    from .test_conditions import CRD

    crd = yaml.load(CRD.read_text(), yaml.CSafeLoader)
    crd["metadata"]["name"], crd["spec"]["group"], crd["spec"]["names"] = RESOURCE, GROUP, NAMES
    if not required:
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        env = spec["env"]["items"]["properties"]["valueFrom"]["properties"]
        token = spec["model"]["properties"]["download"]["properties"]["tokenSecret"]
        for reference in (token, env["secretKeyRef"], env["configMapKeyRef"]):
            assert reference["required"] == ["name", "key"]
            reference["required"] = ["name"]
            reference["properties"]["key"].update({"default": default} if default else {})
    return json.dumps(crd)


class Cluster:
    """The API server with one version of that CRD after the other."""

    def __init__(self, apiserver: Any, namespace: str) -> None:
        self.server, self.namespace = apiserver, namespace

    def install(self, crd: str) -> None:
        self.server.kubectl("apply", "--server-side", "-f", "-", stdin=crd)
        self.until(0, "get", RESOURCE)

    def kubectl(self, *words: str, document: Any = None) -> Any:
        stdin = json.dumps(document) if document else None
        return self.server.kubectl(*words, "-n", self.namespace, stdin=stdin, check=False)

    def until(self, code: int, *words: str, document: Any = None) -> str:
        """A CRD takes a moment to be served."""
        ask = partial(self.kubectl, *words, document=document)
        return str(wait_until(lambda: (done := ask()).returncode == code and done, " ".join(words)).stderr)

    def stored(self) -> dict[str, Any]:
        return dict(self.server.get(RESOURCE, "old", "-n", self.namespace)["spec"])


@pytest.fixture
def cluster(apiserver, namespace):
    yield Cluster(apiserver, namespace)
    apiserver.kubectl("delete", "crd", RESOURCE, "--wait=false", check=False)


def a_copy(name: str, **spec: Any) -> dict[str, Any]:
    made = a_service(name, **SPEC, **spec)
    return {**made, "apiVersion": f"{GROUP}/v1alpha1", "kind": NAMES["kind"]}


def test_a_stored_reference_without_a_key_may_stay_and_a_new_one_is_refused(cluster):
    """Kubernetes lets a stored part be that an edit leaves as it is."""
    cluster.install(the_crd())
    cluster.until(0, "create", "-f", "-", document=a_copy("old"))
    assert "key" not in cluster.stored()["env"][0]["valueFrom"]["secretKeyRef"]
    cluster.install(the_crd(required=True))
    refused = cluster.until(1, "create", "--dry-run=server", "-f", "-", document=a_copy("new"))
    assert REFERENCE in refused
    assert "spec.model.download.tokenSecret.key: Required value" in refused
    edit = ("patch", RESOURCE, "old", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
    assert cluster.kubectl(*edit).returncode == 0
    assert cluster.stored()["replicas"] == 2
    assert "key" not in cluster.stored()["model"]["download"]["tokenSecret"]


def test_the_key_that_the_earlier_crd_filled_in_is_stored(cluster):
    """So no resource of 0.1 lacks one, and its manifest may be applied on the server again."""
    cluster.install(the_crd("token"))
    apply = ("apply", "--server-side", "-f", "-")
    cluster.until(0, *apply, document=a_copy("old"))
    cluster.install(the_crd(required=True))
    cluster.until(1, "create", "--dry-run=server", "-f", "-", document=a_copy("new"))
    done = cluster.kubectl(*apply, document=a_copy("old", replicas=3))
    assert done.returncode == 0, done.stderr
    spec = cluster.stored()
    assert (spec["replicas"], spec["env"][0]["valueFrom"]["secretKeyRef"]) == (3, {"name": "s", "key": "token"})
    assert spec["model"]["download"]["tokenSecret"] == {"name": "hub", "key": "token"}
    keyed = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "other"}}}]}
    assert cluster.kubectl("patch", RESOURCE, "old", "--type=merge", "-p", json.dumps({"spec": keyed})).returncode == 0
