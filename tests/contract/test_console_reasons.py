"""Operator → console: a text of the pages stands for a reason of the operator's table, and every reason has a text."""

from __future__ import annotations

import re
from pathlib import Path

from windlass_console.views.row import PASSING
from windlass_operator.status import reasons

PAGES = Path(__file__).resolve().parents[2] / "clients/console/src/windlass_console/pages"
KEY = re.compile(r'^  "reason\.([^"]+)":', re.M)
SPELLED = re.compile(r"([A-Z][a-z]+)+")  # as `reasonText` of parts/reason.js takes a reason apart


def _keys(language: str) -> set[str]:
    return set(KEY.findall((PAGES / f"text/{language}_status.js").read_text()))


def test_each_text_is_of_a_reason():
    """In both languages; a word that is no reason has a key of its own."""
    assert _keys("en") == _keys("zh")
    assert _keys("en") <= set(reasons.TABLE)


def test_a_reason_without_a_row_is_spelled():
    """The page makes its words from the reason itself; the condition's sentence stands beside it."""
    assert [word for word in reasons.TABLE if word not in _keys("en") and not SPELLED.fullmatch(word)] == []
    assert str(SPELLED.pattern) in (PAGES / "parts/reason.js").read_text()


def test_reasons_that_pass_by_themselves_are_the_operators():
    """Of the closed table, and none that somebody must answer; Ready never has the others of that severity."""
    normal = {row.word for row in reasons.ROWS if row.severity == reasons.NORMAL}
    settled = {"Running", "ScaledToZero", "RenderedEarlier", "Suspended", "LicenseGranted", "LicenseNotRequired"}
    assert normal - settled - {"NotExposed", "RouteAccepted"} == PASSING
