"""What a draft is expected to take: passes of the start, corrected by drafts of as many rows."""

import pytest
from windlass_lookahead._core import DraftTime

ONE, FOUR, SIXTEEN, SIXTY_FOUR = 4.0, 5.0, 8.0, 20.0
DRAFTS = 60


@pytest.fixture
def time() -> DraftTime:
    return DraftTime(ONE, FOUR, SIXTEEN, SIXTY_FOUR)


def draft(time: DraftTime, rows: int, k: int, ms: float, read: int | None = None, times: int = DRAFTS) -> None:
    """Drafts that took so long; the first pass reads two tokens a row."""
    for _ in range(times):
        time.took(rows, read or 2 * rows, k, ms)


def test_a_first_pass_reads_the_engines_token_and_an_accepted_draft(time):
    assert time.draft_ms(4, 1) == pytest.approx(FOUR + (SIXTEEN - FOUR) / 3)
    assert time.draft_ms(16, 3) == pytest.approx(SIXTEEN + (SIXTY_FOUR - SIXTEEN) / 3 + 2 * SIXTEEN)
    assert time.draft_ms(0, 4) == time.draft_ms(4, 0) == 0


def test_beyond_the_timed_passes_a_line_goes_on(time):
    assert time.draft_ms(64, 1) == pytest.approx(SIXTY_FOUR + 64 * (SIXTY_FOUR - SIXTEEN) / 48)


def test_what_drafts_took_is_learned(time):
    draft(time, 4, 2, 30.0)
    assert time.draft_ms(4, 2) == pytest.approx(30.0, rel=0.02)


def test_many_slow_rows_do_not_make_one_row_slow(time):
    """A batch of ten that took thrice as long made a single row look so, and the model rested where it pays."""
    before = time.draft_ms(1, 1)
    draft(time, 10, 1, 3 * time.draft_ms(10, 1))
    assert time.draft_ms(1, 1) == before
    assert time.draft_ms(10, 1) > 2 * before


def test_one_stall_moves_little(time):
    draft(time, 1, 1, 4.3)
    before = time.draft_ms(1, 1)
    time.took(1, 2, 1, 500.0)
    assert time.draft_ms(1, 1) == pytest.approx(before, rel=0.05)


def test_rows_that_accept_more_read_more(time):
    draft(time, 10, 4, 40.0, read=45)
    slow = time.draft_ms(10, 4)
    draft(time, 10, 4, 40.0, read=11)
    assert slow == pytest.approx(time.draft_ms(10, 4), rel=0.02)
    assert time.draft_ms(10, 1) < slow / 3


def test_what_came_since_a_trial_is_no_draft_of_each_step(time):
    """A model that rests drafts a chain now and then, whose first pass reads all that came since the last one."""
    before = time.draft_ms(1, 4)
    draft(time, 1, 4, SIXTEEN + 3 * ONE, read=16)
    assert time.draft_ms(1, 4) == pytest.approx(before)
