"""A serving pod that was taken over, against both chat clients: `kubectl windlass chat` and `windlass chat`."""

from __future__ import annotations

import gzip
import json

import pytest
from hostile_server import ACTS, ESCAPES, Server, answer, as_json, flood, kubeconfig

SERVICE = {
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}},
}


def event(content: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": content}}]}).encode() + b"\n\n"


def stream(*parts: bytes, head: str = "") -> bytes:
    return answer(b"".join(parts), head=head)


@pytest.fixture(params=["plugin", "windlass"])
def ask(request, tmp_path):
    """Ask one question with one of the programs."""
    program = request.getfixturevalue(request.param)

    def asked(server: Server, *more: str, **how):
        if request.param == "windlass":
            return program.run(tmp_path, "chat", "hi", "--server", server.url, "--model", "m", *more, **how)
        kubeconfig(tmp_path, server)
        server.answers.setdefault("/llmservices/demo", as_json(SERVICE))
        return program.run(tmp_path, "chat", "demo", "hi", "--address", server.url, *more, **how)

    return asked


def test_an_answer_is_harmless_on_a_terminal_and_true_in_a_pipe(ask):
    reply = stream(*(event(one) for one in ESCAPES), event("\u6a21\u578b"), b"data: [DONE]\n\n")
    with Server({"/chat/completions": reply}) as server:
        shown, piped = ask(server, terminal=True), ask(server)
    assert (shown.code, piped.code) == (0, 0)
    assert ACTS.findall(shown.text) == []
    assert "\\x1b]52;c;" in shown.text and "\u6a21\u578b" in shown.text
    assert piped.out.decode() == ESCAPES + "\u6a21\u578b\n"


def test_json_is_harmless_and_the_same(ask):
    with Server({"/chat/completions": stream(event(ESCAPES))}) as server:
        shown = ask(server, "-o", "json", terminal=True)
    assert ACTS.findall(shown.text) == []
    assert json.loads(shown.text)["text"] == ESCAPES


BAD = {
    "no JSON": stream(b"data: {nonsense\n\n"),
    "nested 100,000 deep": stream(b"data: " + b"[" * 100_000 + b"\n\n"),
    "nested 900 deep": stream(b"data: " + b'{"a":' * 900 + b"1" + b"}" * 900 + b"\n\n"),
    "no object": stream(b'data: ["x"]\n\n'),
    "an error that is text": stream(b'data: {"error": "\\u001b[2Jgone"}\n\n'),
    "an error that is a list": stream(b'data: {"error": [1, 2]}\n\n'),
    "a long error": answer(json.dumps({"error": {"message": ESCAPES * 100_000}}).encode(), "500 No"),
    "a refusal without an end": flood(b"", b"x" * (1 << 20)),
    "a line without an end": flood(b"data: ", b"x" * (1 << 20)),
    "a line of comments without an end": flood(b": ", b"x" * (1 << 20)),
    "a gzip bomb": stream(gzip.compress(bytes(64 << 20)), head="Content-Encoding: gzip\r\n"),
    "a redirect": answer(b"", "302 Go", "Location: http://169.254.169.254/\r\n"),
    "an answer without an end": flood(b"", event("x" * 500_000), 200),
    "headers of 2 MB": stream(b"", head="X: " + "x" * 2_000_000 + "\r\n"),
}


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD.keys())
def test_a_bad_stream_ends_with_a_sentence(ask, reply):
    with Server({"/chat/completions": reply}) as server:
        ended = ask(server)
    said = ended.err.decode()
    assert (ended.why, ended.code in (1, 5)) == ("", True), (ended.code, said[-300:])
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1 and len(said) < 9000
    assert ACTS.findall(said) == []


ODD = {
    "content that is no text": stream(event(["x"]), event({"a": 1}), event(7), event("ok")),
    "usage that is no count": stream(event("ok"), b'data: {"usage": {"completion_tokens": Infinity}}\n\n'),
    "usage that is a list": stream(event("ok"), b'data: {"usage": [1], "choices": {"a": 1}}\n\n'),
    "choices that are no objects": stream(event("ok"), b'data: {"choices": [1, null, "x", {"delta": "y"}]}\n\n'),
    "bytes that are no UTF-8": stream(event("ok"), b': \xff\xfe\n\ndata: {"x": "\xff"}\n\n'),
    "another charset": stream(event("ok"), head="Content-Type: text/event-stream; charset=zlib\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("reply", ODD.values(), ids=ODD.keys())
def test_an_odd_stream_is_read_as_far_as_it_can_be(ask, reply):
    with Server({"/chat/completions": reply}) as server:
        ended = ask(server)
    assert (ended.code, ended.out) == (0, b"ok\n"), ended.err[-300:]


def test_half_a_surrogate_is_no_crash(ask):
    with Server(
        {"/chat/completions": stream(b'data: {"choices": [{"delta": {"content": "a\\ud800b"}}]}\n\n')}
    ) as server:
        ended = ask(server)
    assert (ended.code, ended.out) == (0, b"a?b\n"), ended.err[-300:]
