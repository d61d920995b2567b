"""Limits and usage at the guard, over HTTP: what a key hears at its limit, and what its answers count."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from windlass.front.settings import ApiSettings
from windlass_testbed.simulated_time import elapse

from .conftest import Engine

KEYS = """\
keys:
  - {name: few, key: sk-few-few, requestsPerMinute: 2}
  - {name: tokens, key: sk-tokens-1, tokensPerMinute: 1000}
  - {name: one, key: sk-one-one, concurrency: 1}
  - {name: poet, key: sk-poet-1, models: [poet]}
  - {name: free, key: sk-free-1}
"""
ANSWER = b'{"choices":[],"usage":{"prompt_tokens":7,"total_tokens":700,"completion_tokens":693,%s}}' % (
    b'"prompt_tokens_details":{"cached_tokens":4}'
)


def key(name: str) -> dict:
    return {"headers": {"Authorization": f"Bearer {name}"}}


@pytest.fixture
def limited(api, tmp_path: Path):
    path = tmp_path / "keys.yaml"
    path.write_text(KEYS)

    def make(engine: Engine | None = None):
        return api(engine, ApiSettings(served_names=("demo",), keys_file=str(path)))

    return make


async def test_over_the_requests_of_a_minute(limited) -> None:
    """429 with the time to wait and OpenAI's headers; other keys go on."""
    server = limited()
    first, second, third = [await server.chat(**key("sk-few-few")) for _ in range(3)]
    assert [one.status_code for one in (first, second, third)] == [200, 200, 429]
    assert [one.headers["x-ratelimit-remaining-requests"] for one in (first, second, third)] == ["1", "0", "0"]
    assert third.headers["x-ratelimit-limit-requests"] == "2"
    assert 30 <= int(third.headers["retry-after"]) <= 61
    assert third.json()["error"]["type"] == "RateLimitError"
    words = 'the API key "few" has begun 2 requests in the last minute, its limit is 2; ask again in'
    assert words in third.json()["error"]["message"]
    assert len(server.engine.bodies) == 2
    free = await server.chat(**key("sk-free-1"))
    assert free.status_code == 200
    assert "x-ratelimit-limit-requests" not in free.headers
    metrics = (await server.client.get("/windlass/metrics")).text
    assert 'windlass_limits_refused_total{key="few",limit="requests"} 1\n' in metrics
    assert "sk-" not in metrics


async def test_over_the_tokens_of_a_minute(limited) -> None:
    """What answers used counts, not what was expected."""
    server = limited(Engine(answer=ANSWER))
    first, second = [await server.chat(**key("sk-tokens-1")) for _ in range(2)]
    assert (first.status_code, second.status_code) == (200, 429)
    assert second.headers["x-ratelimit-remaining-tokens"] == "300"
    assert "has used 700 tokens in the last minute, its limit is 1000" in second.text


@pytest.mark.simulated_time
async def test_over_the_requests_at_a_time(limited) -> None:
    """The place is free again when the answer is made."""
    hold = asyncio.Event()
    server = limited(Engine(hold=hold))
    running = asyncio.create_task(server.chat(**key("sk-one-one")))
    await elapse(1)
    assert (await server.chat(**key("sk-one-one"))).status_code == 429
    hold.set()
    assert (await running).status_code == 200
    assert (await server.chat(**key("sk-one-one"))).status_code == 200


async def test_a_key_has_its_models_alone(limited) -> None:
    """404 as OpenAI; its own first one is the default; bodies that show no model are refused."""
    server = limited()
    asked = await server.chat({"model": "demo"}, **key("sk-poet-1"))
    assert (asked.status_code, asked.json()["error"]["param"]) == (404, "model")
    words = 'model "demo" does not exist or this API key may not use it; the key has: poet'
    assert words == asked.json()["error"]["message"]
    assert (await server.chat(**key("sk-poet-1"))).status_code == 200
    assert server.engine.document["model"] == "poet"
    sound = await server.client.post("/v1/audio/transcriptions", content=b"RIFF", **key("sk-poet-1"))
    assert sound.status_code == 403


async def test_usage_is_counted_by_name_and_model(limited) -> None:
    """In, out and cached; a refused request counts nothing."""
    server = limited(Engine(answer=ANSWER))
    await server.chat(**key("sk-free-1"))
    await server.chat({"temperature": 9}, **key("sk-free-1"))
    metrics = (await server.client.get("/windlass/metrics")).text
    labels = '{llmservice="",key="free",model="demo"}'
    for name, value in (("requests", 1), ("prompt_tokens", 7), ("completion_tokens", 693), ("cached_tokens", 4)):
        assert f"windlass_usage_{name}_total{labels} {value}\n" in metrics


@pytest.mark.parametrize("asks", [False, True])
async def test_a_stream_tells_its_usage_to_who_asked(limited, asks: bool) -> None:
    """The guard always asks; the client sees the event only when it asked itself."""
    event = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    seen: list[dict] = []

    async def engine(scope, receive, send) -> None:
        seen.append(json.loads((await receive())["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for piece in (b'data: {"choices":[{"delta":{}}]}\n\n', event, b"data: [DONE]\n\n"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    server = limited(engine)
    options = {"stream_options": {"include_usage": True}} if asks else {}
    answer = await server.chat({"stream": True} | options, **key("sk-free-1"))
    assert seen[0]["stream_options"]["include_usage"] is True
    assert (event in answer.content) is asks
    assert answer.content.endswith(b"data: [DONE]\n\n")
    metrics = (await server.client.get("/windlass/metrics")).text
    assert 'windlass_usage_completion_tokens_total{llmservice="",key="free",model="demo"} 2\n' in metrics


async def test_a_stream_without_usage_is_counted_by_events(limited) -> None:
    """As when its client leaves; the count says that it is estimated."""

    async def engine(scope, receive, send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b'data: {"choices":[{}]}\n\n', "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    server = limited(engine)
    await server.chat({"stream": True}, **key("sk-free-1"))
    metrics = (await server.client.get("/windlass/metrics")).text
    assert 'windlass_usage_completion_tokens_total{llmservice="",key="free",model="demo"} 3\n' in metrics
    assert 'windlass_usage_estimated_requests_total{llmservice="",key="free",model="demo"} 1\n' in metrics


async def pieces(document: dict) -> AsyncIterator[bytes]:
    """A body without an announced length."""
    yield json.dumps({"messages": []} | document).encode()


@pytest.mark.simulated_time
async def test_a_body_without_a_length_reserves_the_whole_limit(limited) -> None:
    """Else it would begin as if it were empty, however many ask at once."""
    server = limited(Engine(answer=ANSWER, hold=(hold := asyncio.Event())))
    path, document = "/v1/chat/completions", {"pad": "a" * 40_000}
    ask = partial(server.client.post, path, **key("sk-tokens-1"))
    asked = [asyncio.create_task(ask(content=pieces(document))) for _ in range(3)]
    await elapse(1)
    hold.set()
    answers = [await one for one in asked]
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429]
    assert next(one for one in answers if one.is_success).headers["x-ratelimit-remaining-tokens"] == "0"
    after = await server.chat(**key("sk-tokens-1"))
    assert "has used 700 tokens" in after.text


async def test_a_body_without_a_length_is_estimated_by_what_was_read(limited) -> None:
    """An answer without a count, to a body of some 4000 bytes."""
    server = limited(Engine(answer=b"{}"))
    await server.client.post("/v1/chat/completions", content=pieces({"pad": "a" * 4000}), **key("sk-free-1"))
    metrics = (await server.client.get("/windlass/metrics")).text
    found = re.search(r'windlass_usage_prompt_tokens_total\{llmservice="",key="free",model="demo"\} (\d+)\n', metrics)
    assert found
    assert 1000 <= int(found[1]) <= 1050


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


TOOLS = [{"parameters": {"properties": {"usage": {"type": "object"}, "k": {"enum": ["response.completed"]}}}}]
USED = {"input_tokens": 400, "output_tokens": 600}
CREATED = event(type="response.created", response={"tools": TOOLS, "usage": None})
COMPLETED = event(type="response.completed", response={"tools": TOOLS, "usage": USED})
STARTED = event(type="message_start", message={"usage": {"input_tokens": 20, "output_tokens": 0}})
UNCOUNTED = event(type="message_start", message={"usage": {"input_tokens": 0, "output_tokens": 0}})
PIECE = event(type="content_block_delta", delta={"text": "a"})


@pytest.mark.parametrize(
    ("path", "events", "expected"),
    [
        ("/v1/responses", [CREATED, PIECE, COMPLETED], (400, 600, 0)),
        ("/v1/messages", [STARTED, *[PIECE] * 900], (20, 901, 1)),
        ("/v1/messages", [UNCOUNTED, *[PIECE] * 9], (1000, 10, 1)),
    ],
    ids=["a tool with a property named usage", "left after the start", "left, and nothing counted"],
)
async def test_a_stream_counts_what_it_used(limited, path: str, events: list[bytes], expected: tuple) -> None:
    """A count that repeats the request, or that comes before the answer, is not the count of the answer."""

    async def engine(scope, receive, send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for piece in events:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if events[-1] is PIECE:
            return  # as when its client leaves
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    server = limited(engine)
    document = json.dumps({"input": "", "stream": True, "messages": [], "max_tokens": 1, "pad": ""}).encode()
    content = document[:-2] + b"a" * (4000 - len(document)) + document[-2:]
    raw = {"headers": {"Authorization": "Bearer sk-tokens-1", "Content-Type": "application/json"}}
    with suppress(AssertionError):  # of the test's transport: the answer has no end
        await server.client.post(path, content=content, **raw)
    (total,) = server.guard.state.accounts.totals.values()
    assert (total.tokens_in, total.tokens_out, total.estimated) == expected
    used = server.guard.state.replicas.member.ledger.used("tokens", time.time())  # of the minute before now
    assert used == (1, sum(expected[:2]))
