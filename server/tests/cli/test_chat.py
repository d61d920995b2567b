"""`windlass chat` against a real server that streams events."""

import json
import socket
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.chat.conversation import Conversation, with_parameters
from windlass.chat.stream import ChatServer, Measure, Sampling
from windlass.cli.main import app
from windlass.errors import ServerError, UsageError


def events(*pieces: str) -> str:
    rows = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    rows += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    rows += [{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": len(pieces)}}]
    return "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"


def openai(seen) -> tuple[int, str]:
    if seen.path == "/v1/models":
        return 200, json.dumps({"data": [{"id": "demo"}]})
    return 200, events("Hel", "lo", "!")


def test_one_question(serve) -> None:
    """The answer streams to standard output, the measure goes beside it."""
    server = serve(openai)
    flags = ["--server", f"{server.url}/v1/", "--system", "be short", "--max-tokens", "9", "--token", "key"]
    result = CliRunner().invoke(app, ["chat", "hi", *flags, "--temperature", "0.5", "--top-p", "0.9"])
    assert (result.exit_code, result.stdout) == (0, "Hello!\n")
    assert result.stderr.startswith("3 tokens, ")
    assert "tokens/s, first token after" in result.stderr
    asked = server.seen[-1]
    expected = {
        "model": "demo",
        "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
    }
    assert ("Bearer key", expected) == (asked.authorization, asked.body)


def test_answer_for_programs(serve) -> None:
    """`-o json` prints one object and nothing else."""
    result = CliRunner().invoke(app, ["chat", "hi", "--server", serve(openai).url, "-o", "json"])
    answer = json.loads(result.stdout)
    assert tuple(answer[name] for name in ("model", "text", "finishReason", "promptTokens", "completionTokens")) == (
        "demo",
        "Hello!",
        "stop",
        5,
        3,
    )


def test_talk(serve) -> None:
    """History is sent along; slash commands stay here."""
    server = serve(openai)
    said = "one\ntwo\n/params temperature=0\n/reset\nthree\n/exit\n"
    result = CliRunner().invoke(app, ["chat", "--server", server.url, "--model", "m"], input=said)
    assert result.exit_code == 0
    assert [len(seen.body["messages"]) for seen in server.seen] == [1, 3, 1]
    assert [seen.body.get("temperature") for seen in server.seen] == [None, None, 0.0]
    assert "the conversation begins anew" in result.stdout


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (401, '{"error": "Unauthorized"}', "answered 401: Unauthorized; give the key with --token"),
        (404, '{"error": {"message": "no model m; it has demo"}}', "answered 404: no model m; it has demo"),
        (500, "oops", "answered 500: oops"),
        (200, 'data: {"error": {"message": "the engine died"}}\n\n', "the server broke off: the engine died"),
    ],
)
def test_refusals(serve, status: int, text: str, said: str) -> None:
    """The server's words reach the user in one sentence."""
    server = serve(lambda seen: (status, text))
    with ChatServer(server.url, "m") as asked, pytest.raises(ServerError) as error:
        list(asked.stream([], Sampling(), Measure()))
    assert said in str(error.value)


def test_nobody_there() -> None:
    """An address where nobody answers is named."""
    why = r"http://127\.0\.0\.1:9 does not answer: .*; start it, or name another server with --server"
    with ChatServer("http://127.0.0.1:9") as asked, pytest.raises(ServerError, match=why):
        _ = asked.model


def test_failed_turn_is_not_asked_again(serve) -> None:
    """A talk goes on after an error, without the question that had no answer."""
    server = serve(lambda seen: (500, "oops") if len(server.seen) == 1 else openai(seen))
    result = CliRunner().invoke(app, ["chat", "--server", server.url, "--model", "m"], input="one\ntwo\n")
    assert "answered 500" in result.stdout
    assert server.seen[1].body["messages"] == [{"role": "user", "content": "two"}]


def test_conversation_commands(tmp_path: Path) -> None:
    """/save writes what was said; unknown commands print the help; bad parameters are told."""
    talk = Conversation("sys")
    talk.add("user", "hi")
    path = tmp_path / "talk.json"
    assert f"1 turns saved to {path}" == talk.command(f"/save {path}")
    assert [turn["role"] for turn in json.loads(path.read_text())] == ["system", "user"]
    assert "cannot be written" in talk.command(f"/save {tmp_path}")
    assert talk.command("/what").startswith("/reset begins anew")
    assert talk.command("/params max_tokens=5") == "max_tokens=5"
    assert talk.command("/params top_p=x") == 'top_p is "x", which is no number'
    with pytest.raises(UsageError, match='"size" is no parameter; choose max_tokens'):
        with_parameters(Sampling(), "size=1")


TEXT = "abcdefgh" * 64


def chunked(text: str, size: int) -> bytes:
    """An answer as servers stream it, in so many chunks, with its head."""
    parts = [text[at : at + size].encode() for at in range(0, len(text), size)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def test_what_came_together() -> None:
    """Many chunks that lie there together are no speed of their own. The connection is closed behind them."""
    closed = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(60)
                connection.recv(65536)
                connection.sendall(chunked(events(*TEXT), 60))
                while connection.recv(65536):  # the rest of the question, then the end
                    pass
                closed.set()

        thread = threading.Thread(target=answer)
        thread.start()
        measure, port = Measure(), listening.getsockname()[1]
        with ChatServer(f"127.0.0.1:{port}", "m") as asked:
            assert "".join(asked.stream([], Sampling(), measure)) == TEXT
        thread.join()
    assert closed.is_set()
    assert measure.tokens_per_s == pytest.approx(len(TEXT) / measure.total_s)


def test_speed_counts_what_comes_after_the_first_token() -> None:
    """The wait for the first token is left out, unless the others came with it."""
    pieces = ["a"] * 11
    assert Measure(completion_tokens=11, first_token_s=1.0, total_s=2.0, text=pieces).tokens_per_s == 10.0
    assert Measure(completion_tokens=11, first_token_s=1.999, total_s=2.0, text=pieces).tokens_per_s == 5.5
    assert Measure(completion_tokens=1, first_token_s=1.0, total_s=1.0, text=["a"]).tokens_per_s == 1.0
    assert Measure().tokens_per_s == 0.0
