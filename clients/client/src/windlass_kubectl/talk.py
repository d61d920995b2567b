"""One streamed conversation with a service over its OpenAI API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from windlass_base.chat_events import (
    EventReader,
    UnusableEventError,
    failure,
    finish_reason,
    is_step,
    pieces,
    tokens,
)
from windlass_base.kube.errors import ClientError, InvalidError, UnreachableError
from windlass_base.untrusted_json import UnusableJsonError, json_of

CONNECT_S, SILENCE_S = 10.0, 300.0
REFUSAL_MAX = 600  # bytes
PORT_MAX = 65535
ANSWER_MAX = 16 << 20  # characters; a context of a million tokens has about 4 million


@dataclass(slots=True)
class ChatAnswer:
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
    may_ask: Callable[[], None]  # raises when the address is no more the service's
    messages: list[dict[str, str]] = field(default_factory=list)

    async def ask(self, question: str, answer: ChatAnswer) -> AsyncIterator[str]:
        """The pieces of the answer; an unanswered question is forgotten."""
        self.may_ask()
        asked = [*self.messages, {"role": "user", "content": question}]
        began, said, length = time.monotonic(), list[str](), 0
        try:
            async for event in self._events({**self.settings, "messages": asked}):
                for piece in _pieces(event, answer):
                    answer.first_s = answer.first_s or time.monotonic() - began
                    said.append(piece)
                    length += len(piece)
                    if length > ANSWER_MAX:
                        raise ClientError(f"the answer has more than {ANSWER_MAX >> 20} million characters")
                    yield piece
            answer.text = "".join(said)
        except httpx2.HTTPError as error:
            raise UnreachableError(f"the service does not answer: {error or type(error).__name__}") from error
        answer.total_s = time.monotonic() - began
        self.messages = [*asked, {"role": "assistant", "content": answer.text}]

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
        """The events of the answer; ClientError when it brings no token for SILENCE_S, whatever else it sends."""
        async with self.http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ClientError("the service compresses its answer, which was asked for as it is")
            if not response.is_success:
                raise _refused(response.status_code, await _beginning(response))
            reader, heard = EventReader(), time.monotonic()
            async for data in response.aiter_bytes():
                for event in _fed(reader, data):
                    heard = time.monotonic() if is_step(event) else heard
                    yield event
                if time.monotonic() - heard > SILENCE_S:
                    raise ClientError(f"the service sends no token for {SILENCE_S:.0f} s")


def _fed(reader: EventReader, data: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        yield from reader.feed(data)
    except UnusableEventError as error:
        raise ClientError(f"the service {error}") from error


async def _beginning(response: httpx2.Response) -> bytes:
    """The first bytes of a refusal."""
    text = b""
    async for data in response.aiter_bytes():
        text += data[:REFUSAL_MAX]
        if len(text) >= REFUSAL_MAX:
            break
    return text[:REFUSAL_MAX]


def _pieces(event: Mapping[str, Any], answer: ChatAnswer) -> list[str]:
    if event.get("error"):
        raise ClientError(f"the service broke off: {failure(event)[:REFUSAL_MAX]}")
    answer.prompt_tokens = tokens(event, "prompt_tokens") or answer.prompt_tokens
    answer.completion_tokens = tokens(event, "completion_tokens") or answer.completion_tokens
    answer.finish_reason = finish_reason(event) or answer.finish_reason
    return pieces(event)


def _refused(code: int, body: bytes) -> ClientError:
    if code in (401, 403):
        return ClientError("the service wants an API key: give --token, WINDLASS_API_KEY or --key-from-secret SECRET")
    try:
        said = failure(json_of(body))
    except UnusableJsonError:
        said = body.decode(errors="replace").strip()
    return ClientError(f"the service refuses: {said or f'HTTP {code}'}")


def http_address(text: str) -> str:
    """The address of a server, `http://` where no scheme stands; InvalidError for what is none."""
    address = text if "://" in text else f"http://{text}"
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL as error:
        raise InvalidError(f'--address "{text}" is no address: {error}; write it as http://HOST:PORT') from error
    if url.scheme not in {"http", "https"} or not url.host or not 0 < (url.port or 80) <= PORT_MAX:
        raise InvalidError(f'--address "{text}" is no address of a server; write it as http://HOST:PORT')
    return address


def connection(address: str, key: str) -> httpx2.AsyncClient:
    """HTTP to the service, with its key."""
    base = http_address(address).rstrip("/").removesuffix("/v1")
    headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {key}"} if key else {})}
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
    # The forwarded port is on this machine: the environment's proxy is not asked.
    return httpx2.AsyncClient(base_url=base, headers=headers, timeout=timeout, trust_env=False)
