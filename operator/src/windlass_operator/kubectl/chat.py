"""`kubectl windlass chat`: one question, or a talk, streamed."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2

from windlass_operator.client import paths
from windlass_operator.client.errors import ClientError, InvalidError, UnreachableError
from windlass_operator.client.values import LLMService
from windlass_operator.kubectl.forward import port_forward
from windlass_operator.kubectl.parser import OK
from windlass_operator.kubectl.session import Session

KEY_VARIABLE = "WINDLASS_API_KEY"
CONNECT_S, SILENCE_S = 10.0, 300.0
EVENT, DONE = "data:", "[DONE]"
REFUSAL_MAX = 600


@dataclass(slots=True)
class Answer:
    """What an answer was, and what it took; times in seconds."""

    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_s: float = 0.0
    total_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "text": self.text,
            "finishReason": self.finish_reason,
            "promptTokens": self.prompt_tokens,
            "completionTokens": self.completion_tokens,
            "firstTokenSeconds": round(self.first_s, 3),
            "totalSeconds": round(self.total_s, 3),
        }

    def line(self) -> str:
        """For people."""
        return f"{self.completion_tokens} tokens, first after {self.first_s:.2f} s, {self.total_s:.2f} s in all"


@dataclass(slots=True)
class Talk:
    """A server, what is asked of it, and what was said so far."""

    http: httpx2.AsyncClient
    settings: dict[str, Any]
    messages: list[dict[str, str]] = field(default_factory=list)

    async def ask(self, question: str, answer: Answer) -> AsyncIterator[str]:
        """The pieces of the answer; an unanswered question is forgotten."""
        asked = [*self.messages, {"role": "user", "content": question}]
        began = time.monotonic()
        try:
            async for event in self._events({**self.settings, "messages": asked}):
                for piece in _pieces(event, answer):
                    answer.first_s = answer.first_s or time.monotonic() - began
                    answer.text += piece
                    yield piece
        except httpx2.TransportError as error:
            raise UnreachableError(f"the service does not answer: {error or type(error).__name__}") from error
        answer.total_s = time.monotonic() - began
        self.messages = [*asked, {"role": "assistant", "content": answer.text}]

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async with self.http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.is_error:
                raise _refused(response.status_code, (await response.aread())[:REFUSAL_MAX])
            async for line in response.aiter_lines():
                data = line.removeprefix(EVENT).strip() if line.startswith(EVENT) else ""
                if data and data != DONE:
                    yield json.loads(data)


def _pieces(event: dict[str, Any], answer: Answer) -> list[str]:
    if event.get("error"):
        raise ClientError(f"the service broke off: {event['error'].get('message') or event['error']}")
    usage = event.get("usage") or {}
    answer.prompt_tokens = int(usage.get("prompt_tokens") or answer.prompt_tokens)
    answer.completion_tokens = int(usage.get("completion_tokens") or answer.completion_tokens)
    rows = event.get("choices") or []
    for row in rows:
        answer.finish_reason = row.get("finish_reason") or answer.finish_reason
    return [text for row in rows if (text := (row.get("delta") or {}).get("content"))]


def _refused(code: int, body: bytes) -> ClientError:
    if code in (401, 403):
        return ClientError("the service wants an API key: give --token, WINDLASS_API_KEY or --key-from-secret SECRET")
    try:
        said = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = body.decode(errors="replace").strip() or f"HTTP {code}"
    return ClientError(f"the service refuses: {said}")


async def run(session: Session) -> int:
    """Ask the prompt and leave; without one, talk until an empty line."""
    service = await session.client.get(session.options.name)
    key = await _key(session)
    async with AsyncExitStack() as stack:
        address = session.options.address or await stack.enter_async_context(
            port_forward(session.options.name, session.kubectl_flags())
        )
        http = await stack.enter_async_context(_http(address, key))
        talk = Talk(http, _settings(session, service))
        if session.options.system:
            talk.messages.append({"role": "system", "content": session.options.system})
        if session.options.prompt:
            await _one_question(session, talk)
        else:
            await _conversation(session, talk, service)
    return OK.code


def _http(address: str, key: str) -> httpx2.AsyncClient:
    base = address.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
    # The forwarded port is on this machine: the environment's proxy is not asked.
    return httpx2.AsyncClient(base_url=base, headers=headers, timeout=timeout, trust_env=False)


def _settings(session: Session, service: LLMService) -> dict[str, Any]:
    options = session.options
    optional = {"max_tokens": options.max_tokens, "temperature": options.temperature}
    return {
        "model": options.model or service.spec.model.id,
        "stream": True,
        "stream_options": {"include_usage": True},
        **{key: value for key, value in optional.items() if value is not None},
    }


async def _one_question(session: Session, talk: Talk) -> None:
    prompt = session.options.prompt
    question = await asyncio.to_thread(sys.stdin.read) if prompt == "-" else prompt
    answer = Answer()
    async for piece in talk.ask(question, answer):
        if session.is_text:
            print(piece, end="", flush=True)
    if session.is_text:
        session.say("")
        session.note(answer.line())
    else:
        session.emit({"model": talk.settings["model"], **answer.to_dict()})


async def _conversation(session: Session, talk: Talk, service: LLMService) -> None:
    if not session.is_text:
        raise InvalidError("-o json and -o yaml go with one PROMPT")
    session.note(f"talking with {service.spec.model.id}; an empty line ends it")
    while question := (await asyncio.to_thread(_line)).strip():
        answer = Answer()
        try:
            async for piece in talk.ask(question, answer):
                print(piece, end="", flush=True)
            session.say(f"\n[{answer.line()}]")
        except ClientError as error:
            session.note(f"\n[{error}]")


def _line() -> str:
    try:
        return input("> ")
    except EOFError:
        return ""


async def _key(session: Session) -> str:
    """The API key: given, of the environment, or the first line of a Secret that the user names."""
    wanted = session.options.key_from_secret
    if not wanted:
        return str(session.options.token or os.environ.get(KEY_VARIABLE, ""))
    name, _, entry = wanted.partition("/")
    what = f"secret {session.namespace}/{name}"
    secret = await session.client.api.call("GET", paths.core(session.namespace, "secrets", name), what)
    return first_key(secret.get("data") or {}, entry, what)


def first_key(data: dict[str, str], entry: str, what: str) -> str:
    """The first line of the entry, of the first one by name when none is named."""
    chosen = entry or min(data, default="")
    if chosen not in data:
        raise InvalidError(f"{what} has no entry {chosen or 'at all'}; it has: {', '.join(sorted(data)) or 'none'}")
    try:
        lines = base64.b64decode(data[chosen]).decode().split()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidError(f"{what}, entry {chosen}, is not text") from error
    if not lines:
        raise InvalidError(f"{what}, entry {chosen}, is empty")
    return lines[0]
