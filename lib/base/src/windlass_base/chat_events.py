"""Server-sent events of a streamed chat, from a server that may be hostile. Pure.

The reader takes bytes and gives JSON objects, bounded in bytes and nesting. `windlass chat` and `kubectl windlass chat`
read by it; each makes an error of its own of UnusableEventError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass_base.untrusted_json import UnusableJsonError, json_of

EVENT_MAX = 1 << 20
"""Bytes of one event; an event with a token has some hundred."""
WORD_MAX = 64
"""Characters of a finish reason."""
TOKENS_MAX = 2**53
"""JSON readers agree on whole numbers below."""
FIELD, DONE = b"data:", b"[DONE]"


class UnusableEventError(ValueError):
    """A server's bytes are no event; the message is a predicate, such as "sends an event that is no object"."""


class EventReader:
    """Splits the bytes of one answer into its events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """The events that these bytes complete.

        Raises:
            UnusableEventError: an event is no JSON object, or does not end within EVENT_MAX.
        """
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > EVENT_MAX:
            raise UnusableEventError(f"sends an event of more than {EVENT_MAX >> 20} MiB")
        for line in lines:
            text = bytes(line[len(FIELD) :]).strip() if line.startswith(FIELD) else b""
            if text and text != DONE:
                yield json_object(text)


def json_object(text: bytes) -> Mapping[str, Any]:
    """A JSON object of a server.

    Raises:
        UnusableEventError: the text is no JSON, is nested too deep, or is no object.
    """
    try:
        value = json_of(text.decode("utf-8", "replace"))
    except UnusableJsonError as error:
        raise UnusableEventError(f"sends an answer that cannot be read: {error}") from error
    if not isinstance(value, Mapping):
        raise UnusableEventError("sends an answer that is no JSON object")
    return value


def pieces(event: Mapping[str, Any]) -> list[str]:
    """The text in an event's choices; halves of surrogates, which no encoding takes, become question marks."""
    texts = (_at(_at(choice, "delta"), "content") for choice in rows(event, "choices"))
    return [text.encode("utf-8", "replace").decode() for text in texts if isinstance(text, str) and text]


def is_step(event: Mapping[str, Any]) -> bool:
    """Whether the event brings a token, be it one of the model's reasoning, which has no text in the answer."""
    return any(_at(choice, "delta") for choice in rows(event, "choices"))


def finish_reason(event: Mapping[str, Any]) -> str:
    """Why a choice ended, when the event says so."""
    found = (_at(choice, "finish_reason") for choice in rows(event, "choices"))
    return next((reason[:WORD_MAX] for reason in found if isinstance(reason, str)), "")


def tokens(event: Mapping[str, Any], key: str) -> int:
    """A count of the event's usage; 0 when there is none."""
    value = _at(event.get("usage"), key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKENS_MAX else 0


def failure(document: object) -> str:
    """The message of an error in an event or a body; the whole document where it has another form."""
    error = _at(document, "error") or document
    message = _at(error, "message") or error
    return str(message) if message else ""


def rows(document: Mapping[str, Any], key: str) -> list[object]:
    """A list of the document; empty where it has something else under the key."""
    found = document.get(key)
    return found if isinstance(found, list) else []


def _at(value: object, key: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value under a key; None where there is no object."""
    return value.get(key) if isinstance(value, Mapping) else None
