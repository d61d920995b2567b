"""A key out of a Secret, and a port-forward that fails with kubectl's own words."""

from __future__ import annotations

import base64
import sys
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx2
import pytest
from windlass_client import AsyncClient, ClientError, InvalidError, UnreachableError, token_access
from windlass_client.values import service_of
from windlass_kubectl import bench, chat, logs
from windlass_kubectl.chat import first_key
from windlass_kubectl.forward import port_forward
from windlass_kubectl.named_service import not_ready
from windlass_kubectl.parser import parser
from windlass_kubectl.talk import ChatAnswer, Talk, connection


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_first_key_of_the_first_entry_is_taken():
    """One key on a line; an entry may be named."""
    data = {"b": b64("third"), "a": b64("first\nsecond\n")}
    assert (first_key(data, "", "secret x"), first_key(data, "b", "secret x")) == ("first", "third")


WRONG = {
    "no such entry": ({"a": b64("k")}, "z", "secret x has no entry z; it has: a"),
    "no entries": ({}, "", "has no entry at all; it has: none"),
    "empty": ({"a": b64("\n")}, "", "entry a, is empty"),
    "not text": ({"a": base64.b64encode(b"\xff\xfe").decode()}, "", "entry a, is not text"),
}


@pytest.mark.parametrize(("data", "entry", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_secret_without_a_key_is_one_sentence(data, entry, words):
    with pytest.raises(InvalidError, match=words):
        first_key(data, entry, "secret x")


async def test_a_port_forward_that_fails_says_why(tmp_path):
    """kubectl's words, or that there is no kubectl."""
    program = tmp_path / "kubectl"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('error: services \"a\" not found')\n")
    program.chmod(0o755)
    with pytest.raises(UnreachableError, match='service/a failed: error: services "a" not found'):
        async with port_forward("a", [], str(program)):
            pass
    with pytest.raises(UnreachableError, match="put it on the PATH, or give --address"):
        async with port_forward("a", [], str(tmp_path / "nothing")):
            pass


@pytest.mark.parametrize(
    ("status", "replicas", "words"),
    [
        ("False", 0, "first does not answer now: Downloading: 0.5 of 2 GiB; once that is over: kubectl wait"),
        ("False", 1, ""),
        ("True", 1, ""),
    ],
)
def test_a_service_that_does_not_answer_yet_says_what_it_waits_for(status, replicas, words):
    """The operator's reason; kubectl finds no Service before there is one, and says nothing of a download."""
    ready = {"type": "Ready", "status": status, "reason": "Downloading", "message": "0.5 of 2 GiB",
             "lastTransitionTime": "2026-11-26T06:00:00Z"}  # fmt: skip
    model = {"id": "m", "source": {"pvc": {"claimName": "c"}}}
    service = service_of({
        "metadata": {"name": "first", "namespace": "team"},
        "spec": {"model": model},
        "status": {"conditions": [ready], "readyReplicas": replicas},
    })  # fmt: skip
    assert not_ready(service).startswith(words)
    assert bool(not_ready(service)) == bool(words)


SUSPENDED = {
    "metadata": {"name": "first", "namespace": "team"},
    "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}},
    "status": {
        "replicas": 0,
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Suspended", "message": "spec.suspend is true",
             "lastTransitionTime": "2026-11-26T06:00:00Z"},
        ],
    },
}  # fmt: skip
WHY = "first does not answer now: Suspended: spec.suspend is true; once that is over: kubectl wait"


@pytest.mark.parametrize("command", [chat, bench, logs], ids=["chat", "bench", "logs"])
async def test_without_replicas_each_command_says_at_once_what_the_operator_says(command, monkeypatch):
    """No port-forward is tried: kubectl waits half a minute for pods that do not come."""
    notes: list[str] = []

    async def answer(request):
        rows = {"items": [], "metadata": {}}
        return httpx2.Response(200, json=SUSPENDED if request.url.path.endswith("/first") else rows)

    monkeypatch.setattr(chat, "port_forward", None)
    client = AsyncClient(token_access("https://api", "t", namespace="team"), transport=httpx2.MockTransport(answer))
    options = parser().parse_args([command.__name__.rpartition(".")[2], "first"])
    session = SimpleNamespace(
        client=client,
        namespace="team",
        options=options,
        note=notes.append,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    with pytest.raises(ClientError) as refused:
        await command.run(session)
    assert WHY in " ".join([*notes, str(refused.value)])


async def test_a_pod_that_is_being_started_is_waited_for(tmp_path):
    """kubectl ends while the pod is Pending; the next try has its port."""
    program, tried = tmp_path / "kubectl", tmp_path / "tried"
    text = "error: unable to forward port because pod is not running. Current status=Pending"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys, time\n"
        f"if not (tried := pathlib.Path({str(tried)!r})).exists():\n    tried.touch()\n    sys.exit({text!r})\n"
        "print('Forwarding from 127.0.0.1:7 -> 8501', flush=True)\ntime.sleep(60)\n"
    )
    program.chmod(0o755)
    async with port_forward("a", [], str(program)) as forward:
        assert forward.url == "http://127.0.0.1:7"


async def test_nothing_is_asked_once_the_port_forward_has_ended(tmp_path):
    """Another program of this machine may have taken its port: neither the key nor the question goes there."""
    program = tmp_path / "kubectl"
    program.write_text(f"#!{sys.executable}\nprint('Forwarding from 127.0.0.1:1 -> 8501', flush=True)\n")
    program.chmod(0o755)
    async with port_forward("a", [], str(program)) as forward:
        await forward.process.wait()
        async with connection(forward.url, "key") as http:
            with pytest.raises(UnreachableError, match="has ended; start the command again"):
                async for _ in Talk(http, {}, forward.check).ask("hi", ChatAnswer()):
                    pass
