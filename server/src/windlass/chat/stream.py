"""One streamed chat answer over HTTP: pieces of text as they come, and the measure of it at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from windlass.errors import ServerError

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 300.0
EVENT = "data:"
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an answer is drawn; None leaves it to the server."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields of the request that are set."""
        fields = {"max_tokens": self.max_tokens, "temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class Measure:
    """What an answer took. Filled while it streams."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_token_s: float | None = None
    total_s: float = 0.0
    finish_reason: str = ""
    text: list[str] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        """Tokens after the first over the time after the first: the speed that a reader sees."""
        after_s = self.total_s - (self.first_token_s or 0.0)
        return (self.completion_tokens - 1) / after_s if after_s > 0 and self.completion_tokens > 1 else 0.0

    def line(self) -> str:
        """One line for people."""
        first_ms = (self.first_token_s or 0.0) * 1000
        return (
            f"{self.completion_tokens} tokens, {self.tokens_per_s:.1f} tokens/s, "
            f"first token after {first_ms:.0f} ms, {self.total_s:.2f} s in all"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "text": "".join(self.text),
            "finishReason": self.finish_reason,
            "promptTokens": self.prompt_tokens,
            "completionTokens": self.completion_tokens,
            "tokensPerSecond": round(self.tokens_per_s, 2),
            "firstTokenSeconds": None if self.first_token_s is None else round(self.first_token_s, 4),
            "totalSeconds": round(self.total_s, 4),
        }


class ChatServer:
    """One server and the model that is asked there."""

    def __init__(self, address: str, model: str | None = None, token: str | None = None) -> None:
        """Ask the first model that the server lists unless one is named."""
        base = address.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx.Client(base_url=f"{base}/v1/", headers=headers, timeout=timeout)
        self._address = base
        self._model = model

    @property
    def model(self) -> str:
        """The model's name."""
        if self._model is None:
            listed = self._call("GET", "models").json().get("data") or []
            if not listed:
                raise ServerError(f"{self._address} serves no model")
            self._model = str(listed[0]["id"])
        return self._model

    def stream(self, messages: list[dict[str, str]], sampling: Sampling, measure: Measure) -> Iterator[str]:
        """The answer's pieces; the measure is complete when the iterator ends."""
        body = {"model": self.model, "messages": messages, "stream": True, **sampling.to_dict()}
        body["stream_options"] = {"include_usage": True}
        began = time.perf_counter()
        try:
            with self._http.stream("POST", "chat/completions", json=body) as response:
                self._must_be_well(response)
                for event in _events(response):
                    for piece in _pieces(event, measure):
                        if measure.first_token_s is None:
                            measure.first_token_s = time.perf_counter() - began
                        measure.text.append(piece)
                        yield piece
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            measure.total_s = time.perf_counter() - began

    def _call(self, method: str, path: str) -> httpx.Response:
        try:
            response = self._http.request(method, path)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        self._must_be_well(response)
        return response

    def _must_be_well(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        said = _sentence(response.read())
        hint = "; give the key with --token" if response.status_code == httpx.codes.UNAUTHORIZED else ""
        raise ServerError(f"{self._address} answered {response.status_code}: {said}{hint}")

    def _unreachable(self, error: httpx.HTTPError) -> ServerError:
        why = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or type(error).__name__
        return ServerError(f"{self._address} cannot be asked: {why}; name the server with --server")


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix(EVENT).strip()
        if line.startswith(EVENT) and data and data != DONE:
            event = json.loads(data)
            if "error" in event:
                raise ServerError(f"the server broke off: {_sentence(data.encode())}")
            yield event


def _pieces(event: dict[str, Any], measure: Measure) -> Iterator[str]:
    if usage := event.get("usage"):
        measure.prompt_tokens = int(usage.get("prompt_tokens") or 0)
        measure.completion_tokens = int(usage.get("completion_tokens") or 0)
    for choice in event.get("choices") or []:
        measure.finish_reason = choice.get("finish_reason") or measure.finish_reason
        if piece := (choice.get("delta") or {}).get("content"):
            yield piece


def _sentence(content: bytes) -> str:
    try:
        said = json.loads(content)
        error = said.get("error", said)
        return str(error.get("message", error)) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        return content.decode(errors="replace")[:300].strip() or "nothing"
