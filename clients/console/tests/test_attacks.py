"""Hostile text in names, events, logs and answers: it passes as data, and never as anything else."""

from __future__ import annotations

import json

import pytest
from windlass_client.values import LogLine
from windlass_console.http.sse import encoded
from windlass_console.http.streams import _lines

SCRIPT = "</script><script>alert(1)</script>\u2028\"'<img src=x onerror=alert(1)>\r\n\r\nevent: ROWS\ndata: {}\n\n"
SERVICE = {
    "apiVersion": "serving.windlass.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "qwen", "namespace": "team-a", "uid": "u", "annotations": {"x": SCRIPT}},
    "spec": {"model": {"id": SCRIPT, "source": {"pvc": {"claimName": "c"}}}},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "CrashLoop", "message": SCRIPT, "lastTransitionTime": "x"}
        ]
    },
}
PATH = "/apis/serving.windlass.dev/v1alpha1/namespaces/team-a/llmservices"


async def test_a_script_in_a_models_name_is_text(ann, kube):
    """JSON that browsers must not look into, word for word."""
    kube.on("GET", PATH, 200, {"items": [SERVICE], "metadata": {}})
    answer = await ann.get("/api/services", params={"namespace": "team-a"})
    assert answer.headers["content-type"].startswith("application/json")
    row = answer.json()["items"][0]
    assert (row["model"], row["message"], row["state"]) == (SCRIPT, SCRIPT, "bad")
    call = await ann.get("/api/services/team-a/qwen/call")
    assert call.status_code == 404
    kube.on("GET", f"{PATH}/qwen", 200, SERVICE)
    call = (await ann.get("/api/services/team-a/qwen/call")).json()
    assert json.loads(call["curl"].rpartition(" -d ")[2].strip("'").replace("'\"'\"'", "'"))["model"] == SCRIPT


async def test_a_script_in_an_event_is_text(ann, kube):
    about = {"kind": "LLMService", "name": "qwen"}
    event = {"metadata": {"name": "e"}, "type": "Warning", "reason": SCRIPT, "message": SCRIPT, "involvedObject": about}
    kube.on("GET", "/api/v1/namespaces/team-a/events", 200, {"items": [event], "metadata": {}})
    kube.on("GET", "/api/v1/namespaces/team-a/pods", 200, {"items": [], "metadata": {}})
    answer = await ann.get("/api/services/team-a/qwen/events")
    assert answer.json()["items"][0]["message"] == SCRIPT
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("text", [SCRIPT, "\x1b[2J\x07", "data: x\n\nevent: END\ndata: {}", "\ud800", "a" * 100_000])
async def test_a_log_line_cannot_begin_an_event_of_its_own(text):
    """One line of data for each event, whatever is in it."""
    sent = encoded(("LINES", [{"text": text}]))
    assert sent.count(b"\n") == 3
    assert json.loads(sent.partition(b"data: ")[2]) == [{"text": text}]

    async def one():
        yield LogLine("pod", "server", text)

    events = [event async for event in _lines(one())]
    assert [name for name, _ in events] == ["LINES", "END"]
    assert events[0][1][0]["text"] == text


async def test_an_error_of_the_api_server_shows_its_sentence_and_no_more(ann, kube):
    """A stolen view of another namespace: the API server's refusal, by the user's own token."""
    refused = {"kind": "Status", "reason": "Forbidden", "code": 403, "message": "llmservices is forbidden"}
    kube.on("GET", PATH.replace("team-a", "team-b"), 403, refused)
    kube.on("GET", f"{PATH.replace('team-a', 'team-b')}/qwen", 403, refused)
    kube.asked.clear()
    for path in ("/api/services?namespace=team-b", "/api/services/team-b/qwen", "/api/services/team-b/qwen/watch"):
        answer = await ann.get(path)
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert kube.tokens == {"Bearer ann"}


async def test_a_broken_api_server_is_an_error_in_a_sentence(ann, kube):
    kube.on("GET", PATH, 200, b"<html>")
    answer = await ann.get("/api/services", params={"namespace": "team-a"})
    assert (answer.status_code, answer.json()["reason"]) == (502, "Unreadable")


async def test_what_is_not_of_the_requests_shape_names_its_fields(ann):
    answer = await ann.put("/api/services/team-a/qwen/scale", json={"replicas": "many", "x": 1})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert {row["field"] for row in answer.json()["fields"]} == {"replicas", "x"}
