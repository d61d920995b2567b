"""Which image a serving pod runs: the installation's by digest or tag, or what the spec names of it."""

from __future__ import annotations

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.reconcile.desired_state import pod_shape
from windlass_operator.settings import Settings

from .test_decide import QWEN_7B, a_spec, planned
from .test_spread import PAIRS

GPU, CPU = f"site:5000/w/server@sha256:{'a' * 64}", f"site:5000/w/server-cpu@sha256:{'b' * 64}"
PINNED = Settings(GPU, "0.2.0", "o", server_cpu_image=CPU)
TAGGED = Settings("w/server", "0.2.0", "o", server_cpu_image="w/server-cpu")
ON_CPU = {"resources": {"gpus": 0}}


@pytest.mark.parametrize(
    ("settings", "spec", "image"),
    [
        (PINNED, {}, GPU),
        (PINNED, ON_CPU, CPU),
        (PINNED, {"image": {"version": "0.3.0"}}, "site:5000/w/server:0.3.0"),
        (PINNED, {"image": {"repository": "own/server"}}, "own/server:0.2.0"),
        (TAGGED, {}, "w/server:0.2.0"),
        (TAGGED, ON_CPU, "w/server-cpu:0.2.0"),
    ],
    ids=["digest", "digest on the CPU", "own version", "own repository", "tag", "tag on the CPU"],
)
def test_the_digest_holds_until_the_spec_names_a_version_or_a_repository(settings, spec, image):
    """A tag beside a digest would say nothing, so the whole reference changes to the spec's."""
    plan = planned(QWEN_7B, PAIRS, **spec)
    meta = {"name": "qwen", "namespace": "a", "uid": "u"}
    body = {"metadata": meta, "spec": a_spec(**spec).model_dump(by_alias=True)}
    assert pod_shape(LLMService.model_validate(body), plan, settings).image == image
