"""Answers of programs behind the API server's proxy: none of them says what the user may do."""

from __future__ import annotations

import json
from typing import Any

import pytest

SERVICE = "/apis/serving.windlass.dev/v1alpha1/namespaces/team-a/llmservices/qwen"
PODS = "/api/v1/namespaces/team-a/pods"
CHAT = "/api/v1/namespaces/team-a/services/qwen:http/proxy/v1/chat/completions"
METRICS = f"{PODS}/qwen-0:8501/proxy/metrics"
FORGED = [(401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound"), (409, "Conflict"), (422, "Invalid"),
          (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")]  # fmt: skip
BODY = {"model": "m", "messages": []}


def a_status(code: int, reason: str) -> dict[str, Any]:
    message = "llmservices is forbidden: ann cannot list anything"
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": code,
        "message": message,
    }


@pytest.fixture
def running(kube: Any) -> None:
    """A service with one running pod."""
    pod = {"metadata": {"name": "qwen-0"}, "status": {"phase": "Running"}, "spec": {"containers": []}}
    kube.on("GET", PODS, 200, {"items": [pod], "metadata": {}})


@pytest.mark.parametrize(("code", "reason"), FORGED)
async def test_a_forged_refusal_is_the_programs_own(ann, kube, running, code, reason):
    """In the API server's form: a problem of the pod, and no word of the user's rights, session or objects."""
    kube.on("POST", CHAT, code, a_status(code, reason))
    kube.on("GET", METRICS, code, a_status(code, reason))
    chat = await ann.post("/api/services/team-a/qwen/chat", json=BODY)
    assert (chat.status_code, chat.json()["reason"], chat.json()["serviceStatus"]) == (502, "Service", code)
    metrics = await ann.get("/api/services/team-a/qwen/metrics")
    assert (metrics.status_code, list(metrics.json()["pods"]["qwen-0"])) == (200, ["problem"])


@pytest.mark.parametrize("code", [401, 403])
async def test_a_missing_right_is_the_reviews_word(ann, kube, running, code):
    """The sentence names the right; nothing of the answer is in it."""
    kube.on("POST", CHAT, code, a_status(code, "Forbidden"))
    kube.on("GET", METRICS, code, a_status(code, "Forbidden"))
    kube.allowed = lambda asked: asked["subresource"] != "proxy"
    chat = await ann.post("/api/services/team-a/qwen/chat", json=BODY)
    assert (chat.status_code, chat.json()["reason"]) == (403, "Forbidden")
    assert "you lack the right create on services/proxy in namespace team-a" in chat.json()["error"]
    metrics = await ann.get("/api/services/team-a/qwen/metrics")
    assert (metrics.status_code, metrics.json()["reason"]) == (403, "Forbidden")
    assert "get on pods/proxy" in metrics.json()["error"]
    asked = [
        json.loads(one.content)["spec"]["resourceAttributes"] for one in kube.asked if "accessreviews" in str(one.url)
    ]
    assert {one["name"] for one in asked if one["subresource"] == "proxy"} >= {"qwen:http", "qwen-0:8501"}


async def test_a_token_that_has_ended_is_the_reviews_word_as_well(ann, kube, running):
    """A 401 through the proxy, and a review that the API server refuses: the session has ended."""
    kube.on("POST", CHAT, 401, a_status(401, "Unauthorized"))

    def ended(_: dict[str, Any]) -> bool:
        raise PermissionError

    kube.allowed = ended
    kube.on("GET", METRICS, 401, a_status(401, "Unauthorized"))
    for answer in (
        await ann.post("/api/services/team-a/qwen/chat", json=BODY),
        await ann.get("/api/services/team-a/qwen/metrics"),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (401, "SignIn")


async def test_a_service_without_a_pod_says_so(ann, kube):
    kube.on("POST", CHAT, 503, a_status(503, "ServiceUnavailable") | {"message": "no endpoints available"})
    answer = await ann.post("/api/services/team-a/qwen/chat", json=BODY)
    assert (answer.status_code, answer.json()["serviceStatus"]) == (502, 503)
    assert "cannot be reached: no endpoints available" in answer.json()["error"]
