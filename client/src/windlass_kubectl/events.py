"""Server-sent events of a service that may be hostile: bytes in, JSON objects out, nothing without a bound. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass_base.kube.errors import ClientError
from windlass_base.untrusted_json import UnusableJsonError, json_of

EVENT_MAX = 1 << 20  # bytes of one event; one with a token has some hundred
FIELD, DONE = b"data:", b"[DONE]"


class Events:
    """The events of one answer, out of its bytes as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """The events that these bytes complete; ClientError for one that is none, or has no end."""
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > EVENT_MAX:
            raise ClientError(f"the service sends an event of more than {EVENT_MAX >> 20} MiB")
        for line in lines:
            said = bytes(line[len(FIELD) :]).strip() if line.startswith(FIELD) else b""
            if said and said != DONE:
                yield _event(said)


def _event(said: bytes) -> Mapping[str, Any]:
    try:
        event = json_of(said.decode("utf-8", "replace"))
    except UnusableJsonError as error:
        raise ClientError(f"the service sends an event that cannot be read: {error}") from error
    if not isinstance(event, Mapping):
        raise ClientError("the service sends an event that is no object")
    return event


def pieces(event: Mapping[str, Any]) -> list[str]:
    """The text in an event's choices; halves of surrogates, which no encoding takes, become question marks."""
    texts = (_at(_at(row, "delta"), "content") for row in _rows(event))
    return [text.encode("utf-8", "replace").decode() for text in texts if isinstance(text, str) and text]


def is_step(event: Mapping[str, Any]) -> bool:
    """Whether the event is about a choice: a token, also one that is thought and not said."""
    return any(_at(row, "delta") for row in _rows(event))


def finish_reason(event: Mapping[str, Any]) -> str:
    """Why a choice ended, when the event says so."""
    found = (_at(row, "finish_reason") for row in _rows(event))
    return next((reason for reason in found if isinstance(reason, str)), "")


def tokens(event: Mapping[str, Any], key: str) -> int:
    """A count of the event's usage; 0 when there is none."""
    value = _at(event.get("usage"), key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def failure(document: object) -> str:
    """The server's words in an event or a body that tells of an error."""
    error = _at(document, "error")
    said = _at(error, "message") or error
    return str(said) if said else ""


def _rows(event: Mapping[str, Any]) -> list[object]:
    rows = event.get("choices")
    return rows if isinstance(rows, list) else []


def _at(value: object, key: str) -> Any:  # noqa: ANN401 - any JSON value
    return value.get(key) if isinstance(value, Mapping) else None
