"""How a request is refused, in the shape that OpenAI's clients read. Pure: bytes in, bytes out.

Our own refusals and the engine's errors leave the server alike: `{"error": {message, type, param, code}}`, `code` being
the HTTP status, as the engine writes it.
"""

from __future__ import annotations

import json
from http import HTTPStatus

Headers = tuple[tuple[str, str], ...]

TYPES: dict[int, str] = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "RequestTooLargeError",
    421: "MisdirectedRequestError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}
PARTS = ("message", "type", "param", "code")
LONGEST_TEXT = 500


class Refusal(Exception):  # noqa: N818 — an answer, not a fault of ours
    """A request that ends here, with the answer it gets."""

    def __init__(self, status: int, message: str, *, param: str | None = None, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.headers = status, message, param, headers

    @property
    def body(self) -> bytes:
        """The answer's JSON."""
        return error_body(self.status, self.message, self.param)


def error_body(status: int, message: str, param: str | None = None, type_: str | None = None) -> bytes:
    """One error as OpenAI's clients read it."""
    words = {"message": message, "type": type_ or _type(status), "param": param, "code": status}
    return json.dumps({"error": words}).encode()


def reshaped(status: int, body: bytes) -> bytes:
    """An error of the engine in the one shape; unchanged when it has that shape already."""
    document = _document(body)
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict):
        type_ = error.get("type")
        is_word = isinstance(type_, str) and type_.isidentifier()  # at times the engine writes "Bad Request" here
        if is_word and all(part in error for part in PARTS):
            return body
        return error_body(status, _message_of(error, status), error.get("param"), type_ if is_word else None)
    return error_body(status, _message_of(document if document is not None else body, status))


def message_of(status: int, body: bytes) -> str:
    """The message of an engine's error, whatever its shape."""
    document = _document(body)
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict):
        return _message_of(error, status)
    return _message_of(document if document is not None else body, status)


def _type(status: int) -> str:
    return TYPES.get(status) or TYPES[500 if status >= 500 else 400]


def _document(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _message_of(answer: object, status: int) -> str:
    if isinstance(answer, dict):
        answer = next((answer[key] for key in ("message", "error", "detail") if answer.get(key)), "")
    if isinstance(answer, bytes):
        answer = "" if b"<html" in answer.lower() else answer.decode(errors="replace")[:LONGEST_TEXT].strip()
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return text or HTTPStatus(status).phrase
