"""The HTTP application: paths and errors. Keys and sizes: `front`, a request's meaning: `wire`, answers: `bodies`."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from windlass_deepspeed import __version__
from windlass_deepspeed.api import bodies
from windlass_deepspeed.api.bodies import Shape, Usage
from windlass_deepspeed.api.exchange import Desk
from windlass_deepspeed.api.front import Front
from windlass_deepspeed.api.wire import ChatBody, TextBody
from windlass_deepspeed.decoder import Tokenizer
from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.sampling import Sampling

ANY_MODEL = "model"
"""The manual's clients ask for this name, whatever is served."""
CLIENT_IS_GONE = 499
MOST_ERRORS = 5
"""Faults that one sentence names; a list of messages may have one each."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the application answers with."""

    name: str
    context: int
    tokenizer: Tokenizer
    desk: Desk
    metrics: Metrics
    api_keys: tuple[str, ...] = ()
    concurrency: int = 32
    created: int = field(default_factory=lambda: int(time.time()))


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that may be answered: prompts as tokens, each with its sampling, and the shape of the answer."""

    prompts: list[tuple[list[int], Sampling]]
    shape: Shape
    with_usage: bool

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts."""
        return sum(len(prompt) for prompt, _ in self.prompts)


def create_app(served: Served) -> FastAPI:
    """The application behind its front; it describes itself to nobody, for the reference page does."""
    app = FastAPI(title="Windlass DeepSpeed server", version=__version__, openapi_url=None)
    app.add_middleware(Front, api_keys=served.api_keys, concurrency=served.concurrency)
    _add_probes(app, served)
    _add_completions(app, served)
    app.add_exception_handler(RequestError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_error)
    return app


def _add_probes(app: FastAPI, served: Served) -> None:
    @app.get("/health")
    async def health() -> Response:
        """200 while requests are served."""
        return Response(status_code=200 if served.desk.batcher.healthy else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(served.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/windlass/metrics")
    async def no_metrics() -> Response:
        """No series: one monitor scrapes the pods of both families, and this page is the vLLM image's."""
        return Response(b"", media_type=CONTENT_TYPE_LATEST)


def _add_completions(app: FastAPI, served: Served) -> None:
    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The model that is served."""
        return bodies.models(served.name, served.created, served.context)

    @app.post("/v1/chat/completions")
    async def chat(body: ChatBody, request: Request) -> Response:
        """The next turn of a conversation."""
        prompt = await asyncio.to_thread(served.tokenizer.chat, body.turns())
        return await _answer(served, body, request, [prompt])

    @app.post("/v1/completions")
    async def complete(body: TextBody, request: Request) -> Response:
        """What follows a text."""
        return await _answer(served, body, request, await asyncio.to_thread(_tokens, served.tokenizer, body))


def _tokens(tokenizer: Tokenizer, body: TextBody) -> list[list[int]]:
    """The prompts as tokens; in a thread, for a long text takes seconds."""
    return [tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in body.prompts()]


async def _answer(served: Served, body: ChatBody | TextBody, request: Request, prompts: list[list[int]]) -> Response:
    asked = _check(served, body, prompts)
    if body.stream:
        return StreamingResponse(_events(served.desk, asked), media_type="text/event-stream")
    answer = asyncio.ensure_future(_whole(served.desk, asked))
    gone = asyncio.ensure_future(_left(request))
    done, others = await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return JSONResponse(answer.result()) if answer in done else Response(status_code=CLIENT_IS_GONE)


def _check(served: Served, body: ChatBody | TextBody, prompts: list[list[int]]) -> CheckedRequest:
    body.refuse_what_is_not_served()
    if body.model not in (None, "", served.name, ANY_MODEL):
        sentence = f'the model "{body.model}" is not served here; ask for "{served.name}", or leave model out'
        raise RequestError(sentence, status=404, param="model", code="model_not_found")
    if not prompts or not all(prompts):
        raise RequestError("the prompt is empty; send at least one token", param="prompt")
    if body.stream and len(prompts) > 1:
        raise RequestError("a stream answers one prompt; send one a request", param="prompt")
    chat = isinstance(body, ChatBody)
    identity = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
    rows = [(prompt, body.sampling(len(prompt), served.context)) for prompt in prompts]
    return CheckedRequest(rows, Shape(identity, int(time.time()), served.name, chat), body.with_usage)


async def _whole(desk: Desk, asked: CheckedRequest) -> dict[str, Any]:
    """Every prompt's answer, made at the same time."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_collect(desk, prompt, sampling)) for prompt, sampling in asked.prompts]
    answers = [task.result() for task in tasks]
    failed = next((answer for answer in answers if isinstance(answer, RequestError)), None)
    if failed:
        raise failed
    good = [answer for answer in answers if not isinstance(answer, RequestError)]
    usage = Usage(asked.prompt_tokens, sum(tokens for _, _, tokens in good))
    return asked.shape.whole([(text, reason) for text, reason, _ in good], usage)


async def _collect(desk: Desk, prompt: list[int], sampling: Sampling) -> tuple[str, str, int] | RequestError:
    """Text, finish reason and tokens. An error is returned: a task group would wrap it."""
    texts: list[str] = []
    reason, tokens = "", 0
    try:
        async with aclosing(desk.pieces(prompt, sampling)) as pieces:
            async for piece in pieces:
                texts.append(piece.text)
                reason, tokens = piece.finish_reason or reason, piece.tokens
    except RequestError as error:
        return error
    return "".join(texts), reason, tokens


async def _events(desk: Desk, asked: CheckedRequest) -> AsyncIterator[str]:
    """The lines of a stream. What fails after it began can only be told inside it."""
    prompt, sampling = asked.prompts[0]
    if asked.shape.chat:
        yield _event(asked.shape.role())
    tokens = 0
    try:
        async with aclosing(desk.pieces(prompt, sampling)) as pieces:
            async for piece in pieces:
                tokens = piece.tokens
                if piece.text:
                    yield _event(asked.shape.piece(piece.text))
                if piece.finish_reason:
                    yield _event(asked.shape.end(piece.finish_reason))
    except RequestError as error:
        yield _event(bodies.error(error))
        return
    if asked.with_usage:
        yield _event(asked.shape.usage(Usage(asked.prompt_tokens, tokens)))
    yield "data: [DONE]\n\n"


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


async def _left(request: Request) -> None:
    """Return when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    problem = _problem(error)
    return JSONResponse(bodies.error(problem), problem.status)


def _problem(error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RequestValidationError):
        rows = [
            (".".join(str(step) for step in row["loc"][1:]) or "body", row["msg"])
            for row in islice(error.errors(), MOST_ERRORS)
        ]
        sentence = "; ".join(f"{place}: {message}" for place, message in rows)
        return RequestError(f"the request is not understood: {sentence}", param=rows[0][0])
    if isinstance(error, HTTPException):
        return RequestError(f"{error.detail}; the paths begin with /v1", status=error.status_code)
    raise error
