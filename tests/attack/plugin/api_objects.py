"""What a hostile API server sends: objects and logs full of what a terminal obeys."""

from __future__ import annotations

from hostile_server import ESCAPES, answer, as_json

CONDITION = {"type": "Ready", "status": "False", "reason": "Bad", "lastTransitionTime": "2026-01-01T00:00:00Z"}
SERVICE = {
    "metadata": {"name": "demo", "namespace": "default", "annotations": {"a": ESCAPES}},
    "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}},
    "status": {"conditions": [{**CONDITION, "message": f"x{ESCAPES}\nfaked: line"}], "plan": {"because": [ESCAPES]}},
}
POD = {
    "metadata": {"name": f"demo-1{ESCAPES}"},
    "spec": {"containers": [{"name": f"server{ESCAPES}"}], "nodeName": ESCAPES},
    "status": {"phase": ESCAPES, "containerStatuses": [{"state": {"waiting": {"reason": ESCAPES}}}]},
}
EVENT = {"reason": ESCAPES, "message": ESCAPES, "type": "Warning", "involvedObject": {"kind": "Pod", "name": ESCAPES}}


def items(*some: object) -> bytes:
    return as_json({"metadata": {"resourceVersion": "1"}, "items": list(some)})


def cluster(**other: object) -> dict:
    """An API server with one service; its pods, events and logs hold what a terminal obeys."""
    return {
        "/": items(),
        "/llmservices": items(SERVICE),
        "/llmservices/demo": as_json(SERVICE),
        "/namespaces/default/pods": items(POD),
        "/namespaces/default/events": items(EVENT),
        "/log?": answer(f"one{ESCAPES}\r\n".encode() + b"\xff\x80\xfetwo\n"),
        "/version": as_json({"gitVersion": ESCAPES}),
        **other,
    }
