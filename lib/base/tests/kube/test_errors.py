"""Each refusal of the API server becomes the error that says what the caller must do."""

from __future__ import annotations

import pytest
from windlass_base.kube import errors
from windlass_base.kube.errors import FieldProblem, InvalidError, refusal
from windlass_testbed.cases import every_case


def a_status(reason: str, message: str, *causes: dict[str, str]) -> dict[str, object]:
    return {"kind": "Status", "reason": reason, "message": message, "details": {"causes": list(causes)}}


ROWS = {
    "no CRD": (404, None, errors.NotInstalledError, "the API server does not know this kind"),
    "not found": (404, a_status("NotFound", '"a" not found'), errors.NotFoundError, '"a" not found'),
    "taken": (409, a_status("AlreadyExists", "exists"), errors.AlreadyExistsError, "exists"),
    "changed": (409, a_status("Conflict", "modified"), errors.ConflictError, "modified"),
    "no rights": (403, a_status("Forbidden", "cannot list"), errors.ForbiddenError, "cannot list"),
    "unknown caller": (401, a_status("Unauthorized", "Unauthorized"), errors.UnauthorizedError, "renew it"),
    "version gone": (410, a_status("Expired", "too old"), errors.ExpiredError, "too old"),
    "busy": (429, a_status("TooManyRequests", "slow down"), errors.UnreachableError, "slow down; try again"),
    "broken": (500, None, errors.UnreachableError, "HTTP 500; try again"),
    "a busy etcd": (500, a_status("", "etcdserver: leader changed"), errors.UnreachableError, "changed; try again"),
    "too large to store": (500, a_status("", "etcdserver: request is too large"), errors.InvalidError, "too large"),
    "too large to send to etcd": (
        500,
        a_status("", "rpc error: trying to send message larger than max (2 vs. 1)"),
        errors.InvalidError,
        "larger than max",
    ),
    "bad request": (400, a_status("BadRequest", 'unknown field "x"'), errors.InvalidError, 'unknown field "x"'),
}


@every_case("code, status, kind, words", ROWS.values(), ids=ROWS.keys())
def test_a_refusal_has_its_error(code, status, kind, words):
    """The type says what to do, the text what was said of which object."""
    error = refusal(code, status, "llmservice a/b")
    assert type(error) is kind
    assert str(error).startswith("llmservice a/b: ")
    assert words in str(error)


def test_fields_are_reported_one_by_one():
    """A form marks them; the sentence names each field once."""
    error = refusal(
        422,
        a_status(
            "Invalid",
            "long",
            {"field": "spec.replicas", "message": "Invalid value: -1: must be at least 0"},
            {"field": "spec.engine", "message": "Invalid value: spec.engine.dtype is wrong"},
        ),
        "llmservice a/b",
    )
    assert isinstance(error, InvalidError)
    assert str(error) == "llmservice a/b: spec.replicas: -1: must be at least 0; spec.engine.dtype is wrong"
    assert error.problems[0] == FieldProblem("spec.replicas", "Invalid value: -1: must be at least 0")


APPLIED = "failed to create typed patch object (a/b; serving.windlass.dev/v1alpha1, Kind=LLMService): "
UNTYPED = {
    "an unknown field": (
        ".spec.replica: field not declared in schema",
        (FieldProblem("spec.replica", "field not declared in schema"),),
        "llmservice a/b: spec.replica: field not declared in schema",
    ),
    "several": (
        "errors:\n  .spec.replicas: expected numeric (int or float), got string\n"
        "  .spec.engine: expected map, got &{[]}",
        (
            FieldProblem("spec.replicas", "expected numeric (int or float), got string"),
            FieldProblem("spec.engine", "expected map, got &{[]}"),
        ),
        "llmservice a/b: spec.replicas: expected numeric (int or float), got string; spec.engine: expected map, "
        "got &{[]}",
    ),
    "a key twice": (
        '.spec.env: duplicate entries for key [name="A"]',
        (FieldProblem("spec.env", 'duplicate entries for key [name="A"]'),),
        'llmservice a/b: spec.env: duplicate entries for key [name="A"]',
    ),
    "a field without a path": ("words of a later release", (), f"llmservice a/b: {APPLIED}words of a later release"),
}


@pytest.mark.parametrize(("words", "problems", "sentence"), UNTYPED.values(), ids=UNTYPED.keys())
def test_a_refused_apply_is_the_documents_fault(words, problems, sentence):
    """The API server answers it with 500 and no details; trying again helps nobody."""
    error = refusal(500, a_status("", APPLIED + words), "llmservice a/b")
    assert isinstance(error, InvalidError)
    assert (error.problems, str(error)) == (problems, sentence)
