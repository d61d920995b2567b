"""Spans go to a real receiver by OTLP, nest as the calls do, and cost nothing where they are off."""

import socket
import subprocess
import sys
import threading

import pytest
from windlass_operator.spans import OFF, Spans
from windlass_testbed.trace_receiver import read, receiving
from windlass_testbed.waiting import HANG_S

ASK = (
    "import sys, windlass_operator.runtime.run; "
    "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
)


@pytest.fixture
def sent(tmp_path):
    """Started spans, and what has come when they are stopped."""
    spans, out = Spans(), tmp_path / "spans.jsonl"
    with receiving(out) as endpoint:
        spans.start(endpoint, "operator-0", "1.2")

        def stopped():
            spans.stop()
            return {row["name"]: row for row in read(out)}

        yield spans, stopped


def test_an_operator_without_traces_imports_no_exporter():
    """Nor the kit that makes spans."""
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_span_that_is_off_is_always_the_same_nothing():
    assert Spans().span("reconcile", namespace="a") is OFF


async def test_stages_and_writes_lie_inside_their_reconcile(sent):
    """By trace and parent, with names as attributes."""
    spans, stopped = sent

    @spans.stage("apply")
    async def apply():
        with spans.span("apply Deployment", namespace="a", object="qwen"):
            return 7

    with spans.span("reconcile", namespace="a", service="qwen"):
        assert await apply() == 7
    rows = stopped()
    root, stage, write = rows["reconcile"], rows["apply"], rows["apply Deployment"]
    assert (root["parent"], stage["parent"], write["parent"]) == ("", root["id"], stage["id"])
    assert {root["trace"]} == {stage["trace"], write["trace"]}
    assert root["service"] == "windlass-operator"
    assert write["attributes"] == {"windlass.namespace": "a", "windlass.object": "qwen"}


def test_an_error_is_its_class_and_no_more(sent):
    """Its text may quote a spec."""
    spans, stopped = sent
    with pytest.raises(ValueError, match="sk-secret"), spans.span("reconcile"):
        raise ValueError("env: sk-secret")
    row = stopped()["reconcile"]
    assert (row["error"], row["events"]) == ("ValueError", [])


def test_a_collector_that_does_not_answer_holds_up_nobody(monkeypatch):
    """Neither the work nor the operator's end: the collector is silent for as long as both take."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(10 * HANG_S))
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        spans = Spans()
        spans.start(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1/traces", "operator-0", "1.2")
        for _ in range(1000):
            with spans.span("reconcile"):
                pass
        spans.stop()
        assert exporting(), "the exporter gave up before the operator's end, so nothing was held up"
    for thread in exporting():
        thread.join(HANG_S)
        assert not thread.is_alive()


def exporting():
    """The threads that send spans."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("Otel")]
