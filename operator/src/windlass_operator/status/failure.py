"""One failure as conditions, Events and `status.failure` tell it: a word, a sentence, the last lines. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windlass_operator.status import reasons

EXCERPT_MAX = 2048
SENTENCE_MAX = 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure; `exit_code` is None where no container has ended, `count` is how often it happened in a row."""

    reason: str
    message: str
    container: str = ""
    exit_code: int | None = None
    excerpt: str = ""
    count: int = 0

    def to_status(self) -> dict[str, Any]:
        """`status.failure` of the resource."""
        code = {} if self.exit_code is None else {"exitCode": self.exit_code}
        return {
            "reason": self.reason,
            "container": self.container,
            **code,
            "excerpt": self.excerpt or self.message[-EXCERPT_MAX:],
            "remedy": reasons.row(self.reason).remedy,
            "count": self.count,
        }


def cut(text: str, length: int = SENTENCE_MAX) -> str:
    """The end of a long text on one line: the cause stands last, in tracebacks and in the kubelet's messages alike."""
    text = " ".join(text.split())
    return text if len(text) <= length else "…" + text[-length:]
