"""One streamed chat answer over HTTP: pieces of text as they come, and the measure of it at the end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from windlass_base.chat_events import (
    EventReader,
    UnusableEventError,
    failure,
    finish_reason,
    is_step,
    json_object,
    pieces,
    rows,
    tokens,
)

from windlass.errors import ServerError, UsageError

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 300.0
CALL_TIMEOUT_S = 60.0  # for the whole of a short answer
ANSWER_MAX = 16 << 20  # characters; a context of a million tokens has about 4 million
BODY_MAX = 1 << 20  # bytes of a list of models
REFUSAL_MAX = 300  # characters that are told
PORT_MAX = 65535
STEPS_S_MAX = 1000
"""Pieces a second that a model may make; where more come, they have waited somewhere."""


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
        """Tokens after the first over the time after it, the speed that a reader sees.

        Where pieces came together, as on a busy machine, that time says nothing: then all tokens over the whole time.
        """
        after_s = self.total_s - (self.first_token_s or 0.0)
        if self.completion_tokens > 1 and after_s > 0 and len(self.text) <= 1 + STEPS_S_MAX * after_s:
            return (self.completion_tokens - 1) / after_s
        return self.completion_tokens / self.total_s if self.total_s > 0 else 0.0

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
    """One server and the model that is asked there; leaving the `with` block closes its connections."""

    def __init__(self, address: str, model: str | None = None, token: str | None = None) -> None:
        """Ask the first model that the server lists unless one is named."""
        base = http_address(address).rstrip("/").removesuffix("/v1")
        headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx.Client(base_url=f"{base}/v1/", headers=headers, timeout=timeout)
        self._address = base
        self._model = model

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def model(self) -> str:
        """The model's name."""
        if self._model is None:
            listed = rows(_document(self._call("GET", "models")), "data")
            named = [row["id"] for row in listed if isinstance(row, Mapping) and isinstance(row.get("id"), str)]
            if not named:
                raise ServerError(f"{self._address} serves no model")
            self._model = named[0][:REFUSAL_MAX]
        return self._model

    def stream(self, messages: list[dict[str, str]], sampling: Sampling, measure: Measure) -> Iterator[str]:
        """The answer's pieces; the measure is complete when the iterator ends."""
        body = {"model": self.model, "messages": messages, "stream": True, **sampling.to_dict()}
        body["stream_options"] = {"include_usage": True}
        began, length = time.perf_counter(), 0
        try:
            with self._http.stream("POST", "chat/completions", json=body) as response:
                self._must_be_well(response)
                for event in _events(response):
                    for piece in _pieces(event, measure):
                        if measure.first_token_s is None:
                            measure.first_token_s = time.perf_counter() - began
                        measure.text.append(piece)
                        length += len(piece)
                        yield piece
                    if length > ANSWER_MAX:
                        raise ServerError(f"the answer has more than {ANSWER_MAX >> 20} million characters")
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            measure.total_s = time.perf_counter() - began

    def _call(self, method: str, path: str) -> bytes:
        """The body of a short answer."""
        try:
            with self._http.stream(method, path) as response:
                self._must_be_well(response)
                return _bounded(response, BODY_MAX)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _must_be_well(self, response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ServerError(f"{self._address} compresses its answer, which was asked for as it is")
        if response.is_success:
            return
        said = _sentence(_bounded(response, BODY_MAX))
        hint = "; give the key with --token" if response.status_code == httpx.codes.UNAUTHORIZED else ""
        raise ServerError(f"{self._address} answered {response.status_code}: {said}{hint}")

    def _unreachable(self, error: httpx.HTTPError) -> ServerError:
        why = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or type(error).__name__
        why = re.sub(r"\[Errno -?\d+\] ", "", why).rstrip(".")
        return ServerError(f"{self._address} does not answer: {why}; start it, or name another server with --server")


def http_address(text: str, option: str = "--server") -> str:
    """The address of a server, `http://` where no scheme stands; UsageError names the option."""
    address = text if "://" in text else f"http://{text}"
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        raise UsageError(f'{option} "{text}" is no address: {error}; write it as http://HOST:PORT') from error
    if url.scheme not in {"http", "https"} or not url.host or not 0 < (url.port or 80) <= PORT_MAX:
        raise UsageError(f'{option} "{text}" is no address of a server; write it as http://HOST:PORT')
    return address


def _events(response: httpx.Response) -> Iterator[Mapping[str, Any]]:
    """The events; ServerError when none brings a token for READ_TIMEOUT_S, whatever else comes."""
    reader, heard = EventReader(), time.monotonic()
    for data in response.iter_bytes():
        for event in _fed(reader, data):
            if event.get("error"):
                raise ServerError(f"the server broke off: {failure(event)[:REFUSAL_MAX]}")
            heard = time.monotonic() if is_step(event) else heard
            yield event
        if time.monotonic() - heard > READ_TIMEOUT_S:
            raise ServerError(f"the server sends no token for {READ_TIMEOUT_S:.0f} s")


def _fed(reader: EventReader, data: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        yield from reader.feed(data)
    except UnusableEventError as error:
        raise ServerError(f"the server {error}") from error


def _document(text: bytes) -> Mapping[str, Any]:
    """A JSON object that the server sent; ServerError when it sent something else."""
    try:
        return json_object(text)
    except UnusableEventError as error:
        raise ServerError(f"the server {error}") from error


def _pieces(event: Mapping[str, Any], measure: Measure) -> list[str]:
    measure.prompt_tokens = tokens(event, "prompt_tokens") or measure.prompt_tokens
    measure.completion_tokens = tokens(event, "completion_tokens") or measure.completion_tokens
    measure.finish_reason = finish_reason(event) or measure.finish_reason
    return pieces(event)


def _bounded(response: httpx.Response, most: int) -> bytes:
    """The body of a short answer; ServerError when it is longer, or does not end in time."""
    text, until = bytearray(), time.monotonic() + CALL_TIMEOUT_S
    for data in response.iter_bytes():
        text += data
        if len(text) > most or time.monotonic() > until:
            raise ServerError(f"the server's answer does not end within {most >> 20} MiB and {CALL_TIMEOUT_S:.0f} s")
    return bytes(text)


def _sentence(content: bytes) -> str:
    try:
        return failure(_document(content))[:REFUSAL_MAX]
    except ServerError:
        return content.decode(errors="replace")[:REFUSAL_MAX].strip() or "nothing"
