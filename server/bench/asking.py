"""One request of a load, as a client sees it: asked, read quickly or slowly, read to its end or left in the middle.

`clients` makes the requests and lets many clients ask them. Nothing here knows the server's numbers: `books` does.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp

SLOW_READ_BYTES = 8192
SLOW_SLEEP_S = 0.5
SLOW_BUFFER_BYTES = 4096
"""A slow reader's socket holds this much and no more, so that the server feels it."""
FAST_TOKENS = (24, 72)
SLOW_TOKENS = 192
"""With log-probabilities, about 200 kB: more than the buffers between the server and a slow reader hold."""
PIECES_BEFORE_LEAVING = (2, 12)
MODULES = tuple(sorted(name for name in sys.stdlib_module_names if not name.startswith("_")))
WORDS = ("open", "close", "read", "write", "copy", "join", "split", "load", "dump", "run")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: its text and length, and how its client behaves."""

    question: str
    tokens: int
    seed: int
    stream: bool = True
    slow: bool = False
    leave_after: int = 0
    """Pieces to read before going away; 0 reads all."""

    @property
    def body(self) -> dict[str, object]:
        """The request as JSON."""
        messages = [{"role": "user", "content": self.question}]
        body: dict[str, object] = {"messages": messages, "max_tokens": self.tokens, "seed": self.seed}
        if self.stream:
            always = {"continuous_usage_stats": True} if self.leave_after else {}
            body |= {"stream": True, "stream_options": {"include_usage": True, **always}}
        long = {"ignore_eos": True, "logprobs": True, "top_logprobs": 5}
        return body | (long if self.tokens == SLOW_TOKENS else {})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request. Tokens are those that the server said it had counted so far."""

    ask: Ask
    status: int = 0
    first_s: float | None = None
    total_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    complete: bool = False
    left: bool = False
    retry_after: str = ""
    problem: str = ""


def asks(number: int, seed: int, slow_share: float, leave_share: float) -> list[Ask]:
    """The requests of one round: the same seed gives the same texts and lengths, whatever the shares are."""
    chance = random.Random(seed)  # noqa: S311 - a load, no secret
    return [_ask(chance, slow_share, leave_share) for _ in range(number)]


def _ask(chance: random.Random, slow_share: float, leave_share: float) -> Ask:
    # Every draw is made for every request, so that shares change who is slow and nothing else.
    question = f"What does {chance.choice(MODULES)}.{chance.choice(WORDS)} do?"
    tokens, seed = chance.randint(*FAST_TOKENS), chance.randrange(2**31)
    slow, leave, stream = chance.random(), chance.random(), chance.random()
    pieces = chance.randint(*PIECES_BEFORE_LEAVING)
    ask = Ask(question, SLOW_TOKENS if slow < 0.2 else tokens, seed, stream=stream < 0.8 or slow < 0.2)
    if leave < leave_share:
        return replace(ask, stream=True, leave_after=pieces)
    return replace(ask, slow=slow < slow_share)


def session(base_url: str, key: str, *, slow: bool, timeout_s: float) -> aiohttp.ClientSession:
    """Connections without a limit of their own; those of slow readers have small buffers."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # A kept connection may be closed by the server in the moment that it is used again; that would look like a fault.
    connector = aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_small_socket if slow else None)
    return aiohttp.ClientSession(
        base_url,
        connector=connector,
        headers=headers,
        read_bufsize=SLOW_BUFFER_BYTES if slow else 2**16,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
    )


def _small_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
    return made


async def put(ask: Ask, http: aiohttp.ClientSession) -> Outcome:
    """Ask once; a broken connection or a time-out is an outcome too."""
    began = time.perf_counter()
    try:
        async with http.post("/v1/chat/completions", json=ask.body) as answer:
            outcome = Outcome(ask, answer.status, retry_after=answer.headers.get("Retry-After", ""))
            if answer.status != 200:
                text = await answer.text()
                outcome = replace(outcome, problem=f"{answer.status}: {text[:200]}")
            elif ask.stream:
                outcome = await _stream(outcome, answer, began)
            else:
                outcome = _whole(outcome, await answer.json())
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        outcome = Outcome(ask, problem=f"{type(error).__name__}: {error}")
    return replace(outcome, total_s=time.perf_counter() - began)


def _whole(outcome: Outcome, document: dict[str, dict[str, int]]) -> Outcome:
    usage = document["usage"]
    return _counted(replace(outcome, complete=True), usage)


async def _stream(outcome: Outcome, answer: aiohttp.ClientResponse, began: float) -> Outcome:
    pieces = 0
    async for event in _events(answer, slow=outcome.ask.slow):
        if event == "[DONE]":
            return replace(outcome, complete=True)
        document = json.loads(event)
        if "error" in document:
            return replace(outcome, problem=str(document["error"])[:200])
        if usage := document.get("usage"):
            outcome = _counted(outcome, usage)
        if document["choices"] and document["choices"][0]["delta"].get("content"):
            pieces += 1
            if outcome.first_s is None:
                outcome = replace(outcome, first_s=time.perf_counter() - began)
        if 0 < outcome.ask.leave_after <= pieces:
            answer.close()
            return replace(outcome, left=True)
    return replace(outcome, problem="the stream ended without [DONE]")


async def _events(answer: aiohttp.ClientResponse, *, slow: bool) -> AsyncIterator[str]:
    """The `data:` lines; a slow reader takes a little, then sleeps."""
    rest = b""
    while chunk := await (answer.content.read(SLOW_READ_BYTES) if slow else answer.content.readany()):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ").decode()
        if slow:
            await asyncio.sleep(SLOW_SLEEP_S)


def _counted(outcome: Outcome, usage: dict[str, int]) -> Outcome:
    return replace(outcome, prompt_tokens=usage["prompt_tokens"], completion_tokens=usage.get("completion_tokens", 0))
