"""One streamed conversation with a service over its OpenAI API."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from windlass_operator.client.errors import ClientError, UnreachableError

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


def connection(address: str, key: str) -> httpx2.AsyncClient:
    """HTTP to the service, with its key."""
    base = address.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
    # The forwarded port is on this machine: the environment's proxy is not asked.
    return httpx2.AsyncClient(base_url=base, headers=headers, timeout=timeout, trust_env=False)
