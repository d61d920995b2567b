"""Conditions without reason or message, stored under an earlier CRD, stand in the way of no later write."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import yaml
from windlass_testbed.waiting import wait_until

from .test_crd import a_service

CRD = Path(__file__).parents[2] / "crds/llmservices.serving.windlass.dev.yaml"
GROUP = "earlier.windlass.dev"  # a copy, so that the CRD of the other tests stays as it is
# with names of its own, too: kubectl takes a bare `llmservices` of two groups for either of them
NAMES = {"kind": "EarlierLLMService", "plural": "earlierllmservices", "singular": "earlierllmservice"}
RESOURCE = f"{NAMES['plural']}.{GROUP}"
BARE = {"status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def the_crd(*required: str) -> str:
    """The committed CRD in a group and with names of its own; with `required`, of a condition these alone."""
    crd = yaml.load(CRD.read_text(), yaml.CSafeLoader)
    crd["metadata"]["name"], crd["spec"]["group"] = RESOURCE, GROUP
    crd["spec"]["names"] = NAMES
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    if required:
        status["properties"]["conditions"]["items"]["required"] = list(required)
    return json.dumps(crd)


def test_stored_conditions_without_words_block_nothing(apiserver, namespace):
    """The operator's own are replaced by its status write; another program's is refused anew and may stay."""

    def until(code: int, *words: str) -> str:
        ask = partial(apiserver.kubectl, *words, "-n", namespace, check=False)
        return wait_until(lambda: (done := ask()).returncode == code and done, " ".join(words)).stderr

    def patch(*types: str) -> tuple[str, ...]:
        status = {"status": {"conditions": [{"type": type_, **BARE} for type_ in types]}}
        return ("patch", RESOURCE, "old", "--subresource=status", "--type=merge", "-p", json.dumps(status))

    service = {**a_service(name="old"), "apiVersion": f"{GROUP}/v1alpha1", "kind": NAMES["kind"]}
    try:
        apiserver.kubectl("apply", "--server-side", "-f", "-", stdin=the_crd("type", "status", "lastTransitionTime"))
        until(0, "get", RESOURCE)
        apiserver.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(service))
        until(0, *patch("Ready", "Audited"))
        apiserver.kubectl("apply", "--server-side", "-f", "-", stdin=the_crd())
        assert "reason: Required value" in until(1, *patch("Ready", "Audited", "Another"), "--dry-run=server")
        apiserver.kubectl("patch", RESOURCE, "old", "-n", namespace, "--type=merge", "-p", '{"spec": {"replicas": 2}}')
        whole = {"type": "Ready", **BARE, "status": "True", "reason": "Running", "message": "one replica answers"}
        told = {**{key: service[key] for key in ("apiVersion", "kind")}, "metadata": {"name": "old"}}
        words = ("--server-side", "--force-conflicts", "--subresource=status", "--field-manager=windlass-operator")
        done = apiserver.apply({**told, "status": {"conditions": [whole]}}, "-n", namespace, *words)
        assert done.returncode == 0, done.stderr
        found = apiserver.get(RESOURCE, "old", "-n", namespace)
        assert found["spec"]["replicas"] == 2
        assert found["status"]["conditions"] == [whole, {"type": "Audited", **BARE}]
    finally:
        apiserver.kubectl("delete", "crd", RESOURCE, "--wait=false", check=False)
