"""The HTTP API on the arithmetic engine, and over a real socket where the client leaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
import uvicorn
from windlass_deepspeed.api.app import Served, create_app
from windlass_deepspeed.api.exchange import Desk
from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.metrics import Metrics
from windlass_testbed.waiting import HANG_S, wait_until_async

from .echo import CONTEXT, Echo, Letters, figure

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0.0}


@pytest.fixture
def served(batcher: Batcher, metrics: Metrics) -> Served:
    return Served("echo-1", CONTEXT, Letters(), Desk(batcher, 3), metrics)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(served))
    async with httpx.AsyncClient(transport=transport, base_url="http://deepspeed") as made:
        yield made


def events(text: str) -> Iterator[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    yield from (json.loads(line) for line in lines[:-1])


async def test_chat(client: httpx.AsyncClient) -> None:
    """The manual's first example: fields of the answer, `model` left out."""
    body = (await client.post(CHAT, json=HELLO)).json()
    assert body.keys() == {"id", "object", "created", "model", "choices", "usage"}
    assert (body["object"], body["model"]) == ("chat.completion", "echo-1")
    message = {"role": "assistant", "content": "<user>hello"}
    assert [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}] == body["choices"]
    assert body["usage"] == {"prompt_tokens": 11, "completion_tokens": 12, "total_tokens": 23}


async def test_chat_stream(client: httpx.AsyncClient) -> None:
    """The manual's second example: role, pieces, finish reason, usage when asked, [DONE]."""
    answer = await client.post(CHAT, json=HELLO | {"stream": True, "stream_options": {"include_usage": True}})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    first, *middle, end, usage = events(answer.text)
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == "<user>hello"
    assert (end["choices"][0]["delta"], end["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 23)
    assert {"chat.completion.chunk"} == {chunk["object"] for chunk in (first, *middle, end, usage)}
    assert len({chunk["id"] for chunk in (first, *middle, end, usage)}) == 1


async def test_requests_share_a_batch(client: httpx.AsyncClient, echo: Echo) -> None:
    """Six at once, three at a time by the concurrency limit: no batch above 3, some above 1, all answers right."""
    bodies = [{"messages": [{"role": "user", "content": f"number {at}"}]} for at in range(6)]
    answers = await asyncio.gather(*(client.post(CHAT, json=body) for body in bodies))
    texts = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
    assert [f"<user>number {at}" for at in range(6)] == texts
    assert 1 < max(echo.steps) <= 3


async def test_completions(client: httpx.AsyncClient) -> None:
    """Text, tokens and several prompts; a stream of text."""
    for prompt, texts in (
        ("ab", ["ab"]),
        ([97, 98], ["ab"]),
        (["ab", "cde"], ["ab", "cde"]),
        ([[97], [98]], ["a", "b"]),
    ):
        body = (await client.post("/v1/completions", json={"prompt": prompt})).json()
        assert texts == [choice["text"] for choice in body["choices"]]
        assert body["object"] == "text_completion"
    answer = await client.post("/v1/completions", json={"prompt": "abc", "stream": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in events(answer.text)) == "abc"


async def test_models_health_metrics(client: httpx.AsyncClient) -> None:
    """What clients and the cluster ask for."""
    assert [(row["id"], row["max_model_len"]) for row in (await client.get("/v1/models")).json()["data"]] == [
        ("echo-1", CONTEXT)
    ]
    assert (await client.get("/health")).status_code == 200
    text = (await client.get("/metrics")).text
    assert "windlass_deepspeed_batch_size_bucket" in text


@pytest.mark.parametrize("keys", [(), ("sk-one",)], ids=["open", "keys"])
async def test_the_page_of_our_metrics_is_open_and_empty(served: Served, keys: tuple[str, ...]) -> None:
    """The chart's PodMonitor scrapes it of every serving pod: no series, and no target that is down."""
    transport = httpx.ASGITransport(create_app(replace(served, api_keys=keys)))
    async with httpx.AsyncClient(transport=transport, base_url="http://deepspeed") as client:
        answer = await client.get("/windlass/metrics")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/plain; version=")


async def test_an_engine_that_stopped(client: httpx.AsyncClient, served: Served) -> None:
    """Health says so; requests are refused, in a stream as an event."""
    served.desk.batcher.close()
    assert (await client.get("/health")).status_code == 503
    refused = await client.post(CHAT, json=HELLO)
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "server_error")
    assert '"type": "server_error"' in (await client.post(CHAT, json=HELLO | {"stream": True})).text


@pytest.mark.parametrize(
    ("change", "status", "param", "words"),
    [
        ({"temperature": 2.5}, 400, "temperature", "less than or equal to 2"),
        ({"top_p": 0}, 400, "top_p", "greater than 0"),
        ({"top_k": -2}, 400, "top_k", "-1 (off)"),
        ({"presence_penalty": -3}, 400, "presence_penalty", "greater than or equal to -2"),
        ({"frequency_penalty": 3}, 400, "frequency_penalty", "less than or equal to 2"),
        ({"repetition_penalty": 0.5}, 400, "repetition_penalty", "greater than or equal to 1"),
        ({"min_p": 1.5}, 400, "min_p", "less than or equal to 1"),
        ({"logit_bias": {"-1": 1}}, 400, "logit_bias.-1.[key]", "greater than or equal to 0"),
        ({"logit_bias": {"5": 101}}, 400, "logit_bias.5", "less than or equal to 100"),
        ({"no_repeat_ngram_size": -1}, 400, "no_repeat_ngram_size", "greater than or equal to 0"),
        ({"no_repeat_ngram_size": "3"}, 400, "no_repeat_ngram_size", "valid integer"),
        ({"max_tokens": 0}, 400, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": 60}, 400, "max_tokens", "ask for at most 53"),
        ({"messages": []}, 400, "messages", "at least 1 item"),
        ({"messages": [{"role": "user", "content": "x" * 80}]}, 400, "messages", "shorten it"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages.0.role", "'system', 'user' or 'assistant'"),
        (
            {"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]},
            400,
            "messages",
            "once, at the beginning",
        ),
        ({"model": "gpt-9"}, 404, "model", 'ask for "echo-1"'),
        ({"n": 2}, 400, "n", "one answer"),
        ({"tools": [{"type": "function"}]}, 400, "tools", "not served"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format", "text only"),
        ({"stop": [""]}, 400, None, "at least 1 character"),
    ],
)
async def test_bad_requests(
    client: httpx.AsyncClient, change: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    """Each limit of the manual, as an error in OpenAI's shape that names the field."""
    answer = await client.post(CHAT, json=HELLO | change)
    error = answer.json()["error"]
    assert status == answer.status_code
    assert words in error["message"]
    assert param is None or param == error["param"]
    assert error.keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "body",
    [
        HELLO | {"model": "model"},
        HELLO | {"model": None, "temperature": None, "stop": None, "max_tokens": None, "user": "me"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]},
        HELLO | {"temperature": 2, "top_p": 1, "top_k": -1, "repetition_penalty": 2, "presence_penalty": -2, "seed": 1},
    ],
)
async def test_accepted(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    """The manual's model name, nulls, parts of text, unknown fields, the ends of the ranges."""
    assert (await client.post(CHAT, json=body)).json()["choices"][0]["message"]["content"] == "<user>hello"


async def test_not_json_and_not_found(client: httpx.AsyncClient) -> None:
    """Every error has the same shape."""
    broken = await client.post(CHAT, content=b"{", headers={"content-type": "application/json"})
    assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
    assert (await client.get("/nothing")).json()["error"]["type"] == "not_found_error"


async def test_keys(batcher: Batcher, metrics: Metrics) -> None:
    """Any of the keys opens the API; probes need none."""
    app = create_app(Served("m", CONTEXT, Letters(), Desk(batcher, 3), metrics, ("sk-a", "sk-b")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://deepspeed") as client:
        for header, status in ((None, 401), ("Bearer sk-x", 401), ("Basic sk-a", 401), ("Bearer sk-b", 200)):
            headers = {"Authorization": header} if header else {}
            answer = await client.post(CHAT, json=HELLO, headers=headers)
            assert status == answer.status_code
        assert (await client.post(CHAT, json=HELLO)).json()["error"]["type"] == "authentication_error"
        assert (await client.get("/v1/models")).status_code == 401
        assert (await client.get("/health")).status_code == 200


@asynccontextmanager
async def listening(served: Served) -> AsyncIterator[str]:
    """The application behind a real socket."""
    server = uvicorn.Server(uvicorn.Config(create_app(served), host="127.0.0.1", port=0, log_config=None))
    task = asyncio.create_task(server.serve())
    await wait_until_async(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_row(
    served: Served, batcher: Batcher, echo: Echo, metrics: Metrics, stream: bool
) -> None:
    """With and without streaming: the row is gone before the next step, which is held until the server knows."""
    echo.held.clear()
    endless = {"messages": [{"role": "user", "content": "on…"}], "max_tokens": 50, "stream": stream}
    async with listening(served) as url, httpx.AsyncClient(base_url=url, timeout=HANG_S) as client:
        asking = asyncio.create_task(client.post(CHAT, json=endless))
        await wait_until_async(lambda: echo.rows)
        asking.cancel()
        await wait_until_async(lambda: batcher._gone, "the cancellation of the client's row")
        echo.held.set()
        await wait_until_async(lambda: not echo.rows)
    assert len(echo.steps) == 1
    assert figure(metrics, 'windlass_deepspeed_requests_total{outcome="gone"}') == 1


async def test_openais_own_client(served: Served) -> None:
    """The manual's program: the same client, with and without streaming, and its error."""
    async with listening(served) as url, openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY") as client:
        ask = {"model": "model", "messages": HELLO["messages"], "temperature": 0.7, "top_p": 1.0, "max_tokens": 50}
        whole = await client.chat.completions.create(**ask)
        assert whole.choices[0].message.content == "<user>hello"
        chunks = [chunk async for chunk in await client.chat.completions.create(**ask, stream=True)]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "<user>hello"
        with pytest.raises(openai.NotFoundError, match="leave model out"):
            await client.chat.completions.create(**ask | {"model": "gpt-9"})
