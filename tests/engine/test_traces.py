"""One request is one trace, from the guard to the engine, by a receiver beside the server."""

import json

import httpx
import pytest
from windlass_testbed import trace_receiver
from windlass_testbed.waiting import wait_until

from .conftest import SEEING_KEY

KEY = {"Authorization": f"Bearer {SEEING_KEY}"}
PATH = "/v1/chat/completions"


@pytest.fixture
def traced(seeing, spans):
    """The server's address, and the spans that have come."""
    return seeing, lambda: trace_receiver.read(spans)


def asked(url, **headers):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "ignore_eos": True}
    answer = httpx.post(url + PATH, json=body, headers={**KEY, **headers}, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-request-id"]


def spans_of(read, request_id):
    """Ours and the engine's, when both have come."""

    def found():
        rows = read()
        ours = [row for row in rows if row["attributes"].get("windlass.request_id") == request_id]
        engines = [row for row in rows if ours and row["name"] == "llm_request" and row["parent"] == ours[0]["id"]]
        return (ours[0], engines[0]) if ours and engines else None

    return wait_until(found, f"two spans for {request_id}")


def test_a_request_is_one_trace_from_the_guard_to_the_engine(traced):
    """The engine's span lies inside ours, in time too, and both bear the service's name."""
    url, read = traced
    ours, engines = spans_of(read, asked(url))
    assert (ours["scope"], ours["name"], ours["parent"]) == ("windlass.guard", f"POST {PATH}", "")
    assert engines["trace"] == ours["trace"]
    assert ours["began"] <= engines["began"] <= engines["ended"] <= ours["ended"] + 50_000_000
    assert {ours["service"], engines["service"]} == {"chat"}
    assert engines["attributes"]["gen_ai.usage.completion_tokens"] == 8


def test_a_clients_trace_goes_on(traced):
    """Its span is the parent of ours."""
    url, read = traced
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    ours, engines = spans_of(read, asked(url, traceparent=f"00-{trace}-{parent}-01"))
    assert (ours["trace"], ours["parent"], engines["trace"]) == (trace, parent, trace)


def test_spans_hold_no_secret(traced):
    """Neither the key nor what was asked."""
    url, read = traced
    spans_of(read, asked(url))
    text = json.dumps(read())
    assert SEEING_KEY not in text
    assert "Hello" not in text
