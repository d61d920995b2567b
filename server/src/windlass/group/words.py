"""What members say to each other: one line of JSON a word. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VERSION = 1
LINE_BYTES_MAX = 16384
MESSAGE_CHARACTERS = 1000
HELLO, REFUSED, READY, GO, SERVING, BEAT, END = "hello", "refused", "ready", "go", "serving", "beat", "end"
LATER = "later"
KINDS = (HELLO, REFUSED, LATER, READY, GO, SERVING, BEAT, END)


@dataclass(frozen=True, slots=True)
class Word:
    """One word: a follower says hello, ready and end; the head refused, later, go, serving and end; both beat.

    `member` is who says hello, or whose failure an end is; `size`, `engine` and `revision` are what the hello's member
    was told.
    """

    kind: str
    member: int = 0
    size: int = 0
    engine: str = ""
    message: str = ""
    version: int = VERSION
    revision: str = ""


def encode(word: Word) -> bytes:
    """The word as a line."""
    fields = asdict(word) | {"message": word.message[:MESSAGE_CHARACTERS]}
    return json.dumps(fields).encode() + b"\n"


def decode(line: bytes) -> Word | None:
    """The word of a line, None when it is no word of ours: anybody may come to an open port."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, Mapping) or said.get("kind") not in KINDS:
        return None
    return Word(
        kind=str(said["kind"]),
        member=_whole(said.get("member")),
        size=_whole(said.get("size")),
        engine=str(said.get("engine", ""))[:MESSAGE_CHARACTERS],
        message=str(said.get("message", ""))[:MESSAGE_CHARACTERS],
        version=_whole(said.get("version")),
        revision=str(said.get("revision", ""))[:MESSAGE_CHARACTERS],
    )


def _whole(said: object) -> int:
    return said if isinstance(said, int) and not isinstance(said, bool) else -1
