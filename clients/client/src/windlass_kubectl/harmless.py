"""Makes foreign text harmless for a terminal: the one place that knows which characters act on one. Pure.

Logs, answers of models, status texts and names come from whoever may write them. A terminal obeys control characters
in them: they set the clipboard and the title, hide or overwrite lines, and turn the direction of what is read.
"""

from __future__ import annotations

import re

# C0 without line feed and tab, DEL, C1; bidi controls and marks; line and paragraph separators; invisible annotation
# and tag characters; halves of surrogates, which stand for bytes that are no UTF-8.
ACTING = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f"
)
IN_TEXT = re.compile(f"[{ACTING}]")
IN_LINE = re.compile(rf"[{ACTING}\n\t]")
NAMED = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
CUT = "…"


class Painted(str):
    """Text that is harmless already, and holds colours of ours."""

    __slots__ = ()


def harmless(text: str) -> str:
    """The text with each acting character as its escape, `\\x1b` for example; line feeds and tabs stay."""
    return text if isinstance(text, Painted) else IN_TEXT.sub(_escaped, text)


def one_line(text: str, most: int) -> str:
    """The same on one line, cut to `most` characters."""
    cut = text if len(text) <= most else text[: most - 1] + CUT
    return IN_LINE.sub(_escaped, cut)


def quoted(document: str) -> str:
    """A JSON document with acting characters inside its strings as JSON escapes; elsewhere they cannot stand."""
    return IN_TEXT.sub(_json_escaped, document)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # a byte that is no UTF-8, as `surrogateescape` keeps it
    width = next(form for least, form in ((0x10000, "U{:08x}"), (0x100, "u{:04x}"), (0, "x{:02x}")) if code >= least)
    return NAMED.get(code, "\\" + width.format(code))


def _json_escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
