"""The messages between members of a group: one line of JSON each. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VERSION = 1
LINE_BYTES_MAX = 16384
TEXT_CHARACTERS_MAX = 1000
HELLO, REFUSED, READY, GO, SERVING, BEAT, END = "hello", "refused", "ready", "go", "serving", "beat", "end"
LATER = "later"
KINDS = (HELLO, REFUSED, LATER, READY, GO, SERVING, BEAT, END)


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """A follower sends hello, ready and end; the head refused, later, go, serving and end; both send heartbeats.

    `member` is the sender of a hello, or the member that failed, in an end. `size`, `engine` and `revision` are those
    that the sender of a hello has in its variables. `text` is a sentence for people.
    """

    kind: str
    member: int = 0
    size: int = 0
    engine: str = ""
    text: str = ""
    version: int = VERSION
    revision: str = ""


def encode(message: GroupMessage) -> bytes:
    """The message as a line."""
    fields = asdict(message)
    fields["message"] = fields.pop("text")[:TEXT_CHARACTERS_MAX]
    return json.dumps(fields).encode() + b"\n"


def decode(line: bytes) -> GroupMessage | None:
    """The message of a line; None for any other line, since anybody may connect to an open port."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, Mapping) or fields.get("kind") not in KINDS:
        return None
    return GroupMessage(
        kind=str(fields["kind"]),
        member=_whole(fields.get("member")),
        size=_whole(fields.get("size")),
        engine=str(fields.get("engine", ""))[:TEXT_CHARACTERS_MAX],
        text=str(fields.get("message", ""))[:TEXT_CHARACTERS_MAX],
        version=_whole(fields.get("version")),
        revision=str(fields.get("revision", ""))[:TEXT_CHARACTERS_MAX],
    )


def _whole(fields: object) -> int:
    return fields if isinstance(fields, int) and not isinstance(fields, bool) else -1
