"""Refusals of the API server get the name, or the shape, that belongs in the field's place."""

from __future__ import annotations

import pytest
from windlass_base.kube.errors import refusal
from windlass_client.spelling import with_remedies

WHAT = "llmservice default/m"
HUB = "kubectl windlass create NAME --model hf://OWNER/NAME writes one from a hub's name"


def untyped(line: str) -> dict[str, object]:
    """A refused server-side apply, as the API server of Kubernetes 1.36 words it."""
    head = "failed to create typed patch object (default/m; serving.windlass.dev/v1alpha1, Kind=LLMService): "
    return {"message": head + line, "code": 500}


def strict(field: str) -> dict[str, object]:
    message = f'LLMService in version "v1alpha1" cannot be handled: strict decoding error: unknown field "{field}"'
    return {"message": message, "code": 400, "reason": "BadRequest"}


REFUSALS = {
    "misspelt": (
        untyped(".spec.engine.maxModelLength: field not declared in schema"),
        "spec.engine.maxModelLength: there is no such field; did you mean maxModelLen?",
    ),
    "misspelt, strict": (
        strict("spec.engine.maxModelLength"),
        'unknown field "spec.engine.maxModelLength"; did you mean maxModelLen?',
    ),
    "in another case": (
        untyped(".spec.engine.maxmodellen: field not declared in schema"),
        "spec.engine.maxmodellen: there is no such field; did you mean maxModelLen?",
    ),
    "in a list": (
        untyped('.spec.model.adapters[name="a"].pth: field not declared in schema'),
        'spec.model.adapters[name="a"].pth: there is no such field; did you mean path?',
    ),
    "nothing near": (
        untyped(".spec.resources.zzzz: field not declared in schema"),
        "spec.resources.zzzz: there is no such field; spec.resources has gpuType, gpus, ",
    ),
    "many fields": (
        untyped(".spec.engine.zzzz: field not declared in schema"),
        " and more (kubectl explain llmservice.spec.engine)",
    ),
    "a text for the model": (
        untyped(".spec.model: expected map, got &{Qwen/Qwen2.5-0.5B-Instruct}"),
        "spec.model: takes fields of its own, not Qwen/Qwen2.5-0.5B-Instruct: id, source, ",
    ),
    "with the way from a hub": (untyped(".spec.model: expected map, got &{Qwen/Qwen2.5-0.5B-Instruct}"), HUB),
    "of another kind": (untyped(".spec.replicas: expected numeric, got &{two}"), "expected numeric, got &{two}"),
    "nothing is known of it": (strict("a.b"), 'unknown field "a.b"'),
}


@pytest.mark.parametrize(("status", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_says_what_to_write(status, words):
    """The sentence and the row of the field alike; what is not known stays as it was."""
    error = with_remedies(refusal(status["code"], status, WHAT))
    assert words in str(error)
    assert str(error).startswith(f"{WHAT}: ")
    assert [problem for problem in error.problems if problem.message not in str(error)] == []
