"""What acts on a terminal is shown as an escape; everything else stays as it is."""

from __future__ import annotations

import json

import pytest
from windlass_kubectl.harmless import Painted, harmless, one_line, quoted

SHOWN = {
    "\x1b[2J": "\\x1b[2J",
    "\x9b31m": "\\x9b31m",
    "a\rb": "a\\rb",
    "\x00\x7f": "\\x00\\x7f",
    "\u202e\u2066": "\\u202e\\u2066",
    "\u2028": "\\u2028",
    "\U000e0041": "\\U000e0041",
    "\udc80": "\\x80",
    "a\ud800": "a\\ud800",
    "two\n\tlines": "two\n\tlines",
    "\u6a21\u578b \u3000 \U0001f468\u200d\U0001f469": "\u6a21\u578b \u3000 \U0001f468\u200d\U0001f469",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items(), ids=ascii)
def test_what_is_shown(text, shown):
    assert harmless(text) == shown


def test_colours_of_ours_stay():
    assert harmless(Painted("\x1b[32mok\x1b[0m")) == "\x1b[32mok\x1b[0m"


def test_a_cell_is_one_line_of_a_length():
    assert one_line("a\nb\x1b" + "c" * 100, 10) == "a\\nb\\x1bccccc\u2026"


def test_json_stays_the_same_document():
    value = {"a\u202e": ["\x9b\U000e0041\ud800\x1b", "\u6a21"]}
    text = quoted(json.dumps(value, ensure_ascii=False))
    assert text.isprintable()
    assert json.loads(text) == value
