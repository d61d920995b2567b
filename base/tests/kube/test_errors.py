"""Each refusal of the API server becomes the error that says what the caller must do."""

from __future__ import annotations

import pytest
from windlass_base.kube import errors
from windlass_base.kube.errors import FieldProblem, InvalidError, refusal


def a_status(reason: str, message: str, *causes: dict[str, str]) -> dict[str, object]:
    return {"kind": "Status", "reason": reason, "message": message, "details": {"causes": list(causes)}}


ROWS = {
    "no CRD": (404, None, errors.NotInstalledError, "the API server does not know this kind"),
    "not found": (404, a_status("NotFound", '"a" not found'), errors.NotFoundError, '"a" not found'),
    "taken": (409, a_status("AlreadyExists", "exists"), errors.AlreadyExistsError, "exists"),
    "changed": (409, a_status("Conflict", "modified"), errors.ConflictError, "modified"),
    "no rights": (403, a_status("Forbidden", "cannot list"), errors.ForbiddenError, "cannot list"),
    "unknown caller": (401, a_status("Unauthorized", "Unauthorized"), errors.UnauthorizedError, "Unauthorized"),
    "version gone": (410, a_status("Expired", "too old"), errors.ExpiredError, "too old"),
    "busy": (429, a_status("TooManyRequests", "slow down"), errors.UnreachableError, "slow down; try again"),
    "broken": (500, None, errors.UnreachableError, "HTTP 500; try again"),
    "bad request": (400, a_status("BadRequest", 'unknown field "x"'), errors.InvalidError, 'unknown field "x"'),
}


@pytest.mark.parametrize(("code", "status", "kind", "words"), ROWS.values(), ids=ROWS.keys())
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
