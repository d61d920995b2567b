"""What of a server's words may reach a terminal: which characters act on one, and what is shown for them. Pure.

A terminal obeys control characters in an answer: they set the clipboard and the title, overwrite lines, and turn the
direction of what is read. In a pipe an answer stays as it came.
"""

from __future__ import annotations

import re
import sys

# C0 without line feed and tab, DEL, C1; bidi controls and marks; line and paragraph separators; invisible annotation
# and tag characters; halves of surrogates.
ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


def harmless(text: str) -> str:
    """The text with each acting character as its escape, `\\x1b` for example; line feeds and tabs stay."""
    return ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def as_json(document: str) -> str:
    """A JSON document with acting characters inside its strings as JSON escapes; elsewhere they cannot stand."""
    return ACTING.sub(_json_escaped, document)


def answer(text: str) -> str:
    """A piece of an answer as standard output takes it: harmless on a terminal, as it came in a pipe."""
    return harmless(text) if sys.stdout.isatty() else text


def _json_escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
