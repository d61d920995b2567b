"""Conditions: a change of status moves the time, a change of words does not."""

from __future__ import annotations

import pytest
from windlass_operator.status import conditions as c

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


def before(**changes):
    row = {"type": "Ready", "status": "False", "reason": "Starting", "message": "m", "lastTransitionTime": THEN,
           "observedGeneration": 1}  # fmt: skip
    return [{**row, **changes}]


def test_new_words_keep_the_time():
    merged = c.merge(before(), {"Ready": c.Verdict("False", "CrashLoop", "n")}, 2, NOW)
    assert merged == [
        {"type": "Ready", "status": "False", "reason": "CrashLoop", "message": "n", "lastTransitionTime": THEN,
         "observedGeneration": 2}
    ]  # fmt: skip


def test_a_new_status_moves_the_time():
    assert c.merge(before(), {"Ready": c.yes("Running")}, 1, NOW)[0]["lastTransitionTime"] == NOW


def test_the_order_is_always_the_same():
    verdicts = {type_: c.yes("Running") for type_ in reversed(c.TYPES)}
    assert [row["type"] for row in c.merge([], verdicts, 1, NOW)] == list(c.TYPES)


def test_a_word_outside_the_table_is_a_bug():
    with pytest.raises(KeyError):
        c.yes("Splendid")
