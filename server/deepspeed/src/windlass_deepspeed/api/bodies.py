"""What the server answers: completions, chunks, models and errors in OpenAI's shapes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windlass_deepspeed.errors import RequestError

TYPES = {401: "authentication_error", 404: "not_found_error", 500: "server_error", 503: "server_error"}


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts."""

    prompt: int
    completion: int

    def to_dict(self) -> dict[str, int]:
        """`usage`."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        }


@dataclass(frozen=True, slots=True)
class Shape:
    """What the bodies of one answer share, and how chat and text differ."""

    id: str
    created: int
    model: str
    chat: bool

    def whole(self, answers: list[tuple[str, str]], usage: Usage) -> dict[str, Any]:
        """The answer of a request without streaming: text and finish reason of each choice."""
        choices = [
            {"index": at, **self._text(text), "logprobs": None, "finish_reason": reason}
            for at, (text, reason) in enumerate(answers)
        ]
        kind = "chat.completion" if self.chat else "text_completion"
        return self._body(kind, choices) | {"usage": usage.to_dict()}

    def role(self) -> dict[str, Any]:
        """The first chunk of a chat."""
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None)

    def piece(self, text: str) -> dict[str, Any]:
        """A chunk of text."""
        return self._chunk({"delta": {"content": text}} if self.chat else {"text": text}, None)

    def end(self, reason: str) -> dict[str, Any]:
        """The last chunk."""
        return self._chunk({"delta": {}} if self.chat else {"text": ""}, reason)

    def usage(self, usage: Usage) -> dict[str, Any]:
        """The chunk of `stream_options.include_usage`."""
        return self._body(self._chunk_kind, []) | {"usage": usage.to_dict()}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _text(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}

    def _chunk(self, said: dict[str, Any], reason: str | None) -> dict[str, Any]:
        return self._body(self._chunk_kind, [{"index": 0, **said, "finish_reason": reason}])

    def _body(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def error(problem: RequestError) -> dict[str, Any]:
    """An error's body."""
    kind = TYPES.get(problem.status, "invalid_request_error")
    return {"error": {"message": str(problem), "type": kind, "param": problem.param, "code": problem.code}}


def models(name: str, created: int, context: int) -> dict[str, Any]:
    """`GET /v1/models`."""
    row = {"id": name, "object": "model", "created": created, "owned_by": "windlass", "max_model_len": context}
    return {"object": "list", "data": [row]}
