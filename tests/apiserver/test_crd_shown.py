"""The CRD as kubectl shows it on a real API server: short names, categories and `kubectl explain`."""

from __future__ import annotations

import json

import pytest
from windlass_testbed.waiting import wait_until

from .test_crd import a_service

pytestmark = pytest.mark.apiserver


def test_short_names_and_categories_find_the_resource(apiserver, namespace):
    """Both short names and both categories list it."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    for name in ("llm", "llmsvc", "llmservices", "windlass", "ai"):
        assert "qwen2-7b" in apiserver.kubectl("get", name, "-n", namespace, "-o", "name").stdout


def test_explain_tells_every_field(apiserver):
    """`kubectl explain` reads the published OpenAPI schema, which must hold the whole tree."""
    said = _eventually(lambda: apiserver.kubectl("explain", "llmservice.spec", "--recursive", check=False).stdout)
    for field in (
        "source",
        "hostPath",
        "gpuMemoryUtilizationPercent",
        "tensorParallelSize",
        "addresses",
        "pullSecrets",
    ):
        assert field in said
    one = apiserver.kubectl("explain", "llmservice.spec.resources.gpus").stdout
    assert "gpus is the number of GPUs of a replica" in one


def test_describe_shows_no_older_form_that_nobody_wrote(apiserver, namespace):
    """Nor is it stored; one that somebody wrote stays."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    text = apiserver.kubectl("describe", "llm", "-n", namespace).stdout
    assert [word for word in ("\n  Cache:", "API Keys Secret", "Tls Secret") if word in text] == []
    written = a_service(cache={"pvc": "kernels"}, expose={"apiKeysSecret": "keys"})
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(written))
    text = apiserver.kubectl("describe", "llm", "-n", namespace).stdout
    assert "API Keys Secret:  keys" in text
    assert "Pvc:  kernels" in text


def _eventually(ask):
    """The API server publishes a new CRD's OpenAPI a moment after it is established."""
    return wait_until(ask, "the publication of the schema")
