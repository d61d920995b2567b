"""Every default that the API server stores with a resource: a later version cannot change it for what is there.

A field that is not in the table is left out of the stored resource, and the operator decides when it reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass_api.crd.schema import crd
from windlass_api.crd.v1alpha1 import LLMServiceSpec

LEFT_OUT = "empty says left out, and what that means is decided at the read"
WISH = "false says that nothing is asked for"
AUTO = "the operator decides at the read"
PLACE = "an empty object is the place for the defaults inside it"
TUNED = "a later version may want another number; the stored one stays until somebody edits it"
WHY: Mapping[str, tuple[object, str]] = {
    "model.source.pvc.path": ("", LEFT_OUT),
    "model.source.gooseFSx.path": ("", LEFT_OUT),
    "model.base.pvc.path": ("", LEFT_OUT),
    "model.base.gooseFSx.path": ("", LEFT_OUT),
    "model.merge": (False, WISH),
    "model.download.revision": ("", LEFT_OUT),
    "model.download.endpoint": ("", LEFT_OUT),
    "model.download.connections": (8, TUNED),
    "model.adapters[].path": ("", LEFT_OUT),
    "model.adapters[].source.pvc.path": ("", LEFT_OUT),
    "model.adapters[].source.gooseFSx.path": ("", LEFT_OUT),
    "model.adapters[].merge": (False, WISH),
    "image": ({}, PLACE),
    "image.family": ("vllm", "another family is another program: a service keeps the one that it began with"),
    "image.version": ("", LEFT_OUT),
    "image.repository": ("", LEFT_OUT),
    "image.pullPolicy": ("IfNotPresent", "Kubernetes' own default for an image with a version"),
    "deployment": ({}, PLACE),
    "deployment.mode": ("Auto", AUTO),
    "deployment.group": ("Auto", AUTO),
    "deployment.rollout": ("Auto", AUTO),
    "deployment.maxRestarts": (5, TUNED),
    "deployment.drainSeconds": (60, TUNED),
    "replicas": (1, "as of Kubernetes' own workloads; the scale subresource reads it from the stored resource"),
    "suspend": (False, WISH),
    "engine": ({}, PLACE),
    "engine.lookahead": ({}, PLACE),
    "engine.lookahead.enabled": (False, WISH),
    "engine.speculation.method": ("draft_model", "the first method that the field had; each head is named"),
    "engine.speculation.source.pvc.path": ("", LEFT_OUT),
    "engine.speculation.source.gooseFSx.path": ("", LEFT_OUT),
    "engine.speculation.tokens": (4, TUNED),
    "engine.prefixOffload": ({}, PLACE),
    "engine.prefixOffload.enabled": (False, WISH),
    "engine.gpuMemoryUtilizationPercent": (90, TUNED),
    "engine.enforceEager": (False, WISH),
    "engine.workers": (1, "one engine in a pod; more are asked for"),
    "engine.schedulerSteps": (1, "accepted for older setups, and nothing else than 1 does anything"),
    "engine.kvCacheDtype": ("auto", "the model's own number format"),
    "engine.trustRemoteCode": (True, "false would stop services whose model brings code: a change for new ones alone"),
    "engine.convTemplate": ("", LEFT_OUT),
    "engine.ignoreEngineLimits": (False, WISH),
    "engine.memoryCache": (True, "a service keeps the start that it was measured with"),
    "env[].value": ("", "as of Kubernetes' own variables"),
    "expose": ({}, PLACE),
    "expose.path": ("", LEFT_OUT),
    "expose.ingress.className": ("", LEFT_OUT),
    "expose.gateway.parentRefs[].namespace": ("", LEFT_OUT),
    "expose.gateway.parentRefs[].sectionName": ("", LEFT_OUT),
    "expose.timeoutSeconds": (3600, TUNED),
    "license": ({}, PLACE),
    "license.required": (True, "a service never loses its license gate by an upgrade"),
    "scheduling": ({}, PLACE),
    "scheduling.tolerations[].key": ("", "as of Kubernetes' own tolerations"),
    "scheduling.tolerations[].operator": ("Equal", "as of Kubernetes' own tolerations"),
    "scheduling.tolerations[].value": ("", "as of Kubernetes' own tolerations"),
    "scheduling.tolerations[].effect": ("", "as of Kubernetes' own tolerations"),
    "scheduling.priorityClassName": ("", LEFT_OUT),
    "scheduling.topologySpread": ("None", "another word would move the pods of a service that is there"),
}


def stored(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """The defaults of a schema, by their fields."""
    if "default" in node:
        yield path, node["default"]
    for name, child in node.get("properties", {}).items():
        yield from stored(child, f"{path}.{name}" if path else name)
    if isinstance(node.get("items"), dict):
        yield from stored(node["items"], f"{path}[]")


def test_every_stored_default_is_known_and_has_a_reason():
    """A new one is a row here, or it is left to the read."""
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert dict(stored(spec)) == {path: value for path, (value, _) in WHY.items()}


def test_an_older_form_that_an_earlier_crd_stored_empty_asks_for_nothing():
    """Stored or left out it is the same spec, so that no digest of it changes with the CRD."""
    ingress = {"host": "a.example"}
    spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "expose": {"ingress": ingress}}
    stored = {"apiKeysSecret": "", "ingress": {**ingress, "tlsSecret": ""}}
    before = LLMServiceSpec.model_validate({**spec, "expose": stored, "cache": {"pvc": ""}})
    now = LLMServiceSpec.model_validate(spec)
    assert now == before
    for options in ({}, {"exclude_defaults": True}):
        assert now.model_dump(mode="json", **options) == before.model_dump(mode="json", **options)
