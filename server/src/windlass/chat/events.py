"""JSON and server-sent events of a server that may be hostile: bounded in bytes and nesting. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.errors import ServerError

EVENT_MAX = 1 << 20  # bytes of one event; one with a token has some hundred
DEPTH_MAX = 64  # containers inside each other; an event of the OpenAI API has five
FIELD, DONE = b"data:", b"[DONE]"


class Events:
    """The events of one answer, out of its bytes as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """The events that these bytes complete; ServerError for one that is none, or has no end."""
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > EVENT_MAX:
            raise ServerError(f"the server sends an event of more than {EVENT_MAX >> 20} MiB")
        for line in lines:
            said = bytes(line[len(FIELD) :]).strip() if line.startswith(FIELD) else b""
            if said and said != DONE:
                yield document(said)


def document(text: bytes) -> Mapping[str, Any]:
    """A JSON object that the server sent; ServerError when it sent something else."""
    try:
        value = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ServerError("the server sends what is no JSON, or nested too deep") from error
    if not isinstance(value, Mapping) or not _is_flat(value):
        raise ServerError("the server sends no JSON object, or one nested too deep")
    return value


def _is_flat(value: object) -> bool:
    """Whether no container lies deeper than DEPTH_MAX; level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [inner for some in inside for inner in some if isinstance(inner, dict | list)]
        if not level:
            return True
    return False


def pieces(event: Mapping[str, Any]) -> list[str]:
    """The text in an event's choices; halves of surrogates, which no encoding takes, become question marks."""
    texts = (at(at(row, "delta"), "content") for row in rows(event, "choices"))
    return [text.encode("utf-8", "replace").decode() for text in texts if isinstance(text, str) and text]


def is_step(event: Mapping[str, Any]) -> bool:
    """Whether the event is about a choice: a token, also one that is thought and not said."""
    return any(at(row, "delta") for row in rows(event, "choices"))


def finish_reason(event: Mapping[str, Any]) -> str:
    """Why a choice ended, when the event says so."""
    found = (at(row, "finish_reason") for row in rows(event, "choices"))
    return next((reason[:64] for reason in found if isinstance(reason, str)), "")


def tokens(event: Mapping[str, Any], key: str) -> int:
    """A count of the event's usage; 0 when there is none."""
    value = at(event.get("usage"), key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def failure(said: object) -> str:
    """The server's words in an event or a body that tells of an error."""
    error = at(said, "error") or said
    return str(at(error, "message") or error)


def rows(value: Mapping[str, Any], key: str) -> list[object]:
    """A list of the server's; empty where it sends something else."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def at(value: object, key: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value under a key; None where there is no object."""
    return value.get(key) if isinstance(value, Mapping) else None
