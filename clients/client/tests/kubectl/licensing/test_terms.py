"""What is asked of the issuer's program, and whether the license in force is enough."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from windlass_kubectl.licensing.terms import Facts, RequestedTerms, span, words

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
IN_FORCE = Facts(Path("x"), "Example Ltd", "1234", 2, NOW + timedelta(days=10), frozenset({"GPU-a"}), "key")


def test_a_first_license_has_terms_of_its_own():
    """A year, no limit, and names that say where it comes from; each can be named otherwise."""
    assert words(RequestedTerms(), NOW, follows=False) == [
        *("--customer", "self-issued", "--appid", "1", "--expires", "2027-11-24T12:00:00+00:00"),
        *("--max-concurrent", "0"),
    ]
    named = words(RequestedTerms("Example Ltd", "7", 1, 8), NOW, follows=False)
    assert named == [
        *("--customer", "Example Ltd", "--appid", "7", "--expires", "2026-11-25T12:00:00+00:00"),
        *("--max-concurrent", "8"),
    ]


def test_what_follows_names_only_what_changes():
    assert words(RequestedTerms(), NOW, follows=True) == []
    assert words(RequestedTerms(limit=0), NOW, follows=True) == ["--max-concurrent", "0"]
    assert words(RequestedTerms(days=30), NOW, follows=True) == ["--expires", "2026-12-24T12:00:00+00:00"]


@pytest.mark.parametrize(
    ("asked", "changes"),
    [(RequestedTerms(), False), (RequestedTerms("Example Ltd", "1234", None, 2), False),
     (RequestedTerms("Other"), True),
     (RequestedTerms(appid="5"), True),
     (RequestedTerms(limit=0), True), (RequestedTerms(days=10), True)],
)  # fmt: skip
def test_whether_other_terms_are_asked(asked, changes):
    """Naming the same again changes nothing; a number of days always does, since it counts from now."""
    assert asked.changes(IN_FORCE) is changes


@pytest.mark.parametrize(
    ("days", "said"),
    [(0.5, "until 2026-11-25T00:00:00+00:00, within a day"), (1, "in 1 day"), (10, "in 10 days"), (-1, "expired at")],
)
def test_the_end_in_words(days, said):
    assert said in span(NOW + timedelta(days=days), NOW)
