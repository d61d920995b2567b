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


def test_one_row_does_not_change_what_many_took(time):
    draft(time, 10, 1, 3 * time.draft_ms(10, 1))
    many = time.draft_ms(10, 1)
    draft(time, 1, 1, 6.0)
    assert time.draft_ms(10, 1) == many


@pytest.mark.parametrize("times", [3, 0.5], ids=["slow for a while", "slow at the start alone"])
def test_while_it_rests_many_rows_follow_the_one_that_is_tried(time, times):
    quiet, took_ms = time.draft_ms(10, 1), min(times, 1) * (FOUR + (SIXTEEN - FOUR) / 3 + 3 * ONE)
    if times > 1:
        draft(time, 10, 1, times * quiet)
    for _ in range(20):
        time.tried(8, 4, took_ms)
    assert time.draft_ms(10, 1) > (2 * quiet if times > 1 else 0.7 * quiet)
    for _ in range(300):
        time.tried(8, 4, took_ms)
    assert time.draft_ms(10, 1) == pytest.approx(min(times, 1) * quiet, rel=0.1)


def test_one_stall_moves_little(time):
    draft(time, 1, 1, 4.3)
    before = time.draft_ms(1, 1)
    time.took(1, 2, 1, 500.0)
    assert time.draft_ms(1, 1) == pytest.approx(before, rel=0.05)


def test_rows_that_accept_more_read_more(time):
    """The machine is as quick as at the start, so the tokens that are read are all that changes."""
    draft(time, 16, 4, SIXTY_FOUR + 3 * SIXTEEN, read=64)
    assert time.draft_ms(16, 4) == pytest.approx(SIXTY_FOUR + 3 * SIXTEEN, rel=0.02)
    draft(time, 16, 4, SIXTEEN + 3 * SIXTEEN, read=16)
    assert time.draft_ms(16, 4) == pytest.approx(SIXTEEN + 3 * SIXTEEN, rel=0.02)


def test_a_chain_of_one_leaves_two_tokens_at_most(time):
    """What a row reads after it is the draft and the engine's own token, whatever longer chains left."""
    read_20 = SIXTEEN + 4 * (SIXTY_FOUR - SIXTEEN) / 48
    draft(time, 4, 4, read_20 + 3 * FOUR, read=20)
    assert time.draft_ms(4, 4) == pytest.approx(read_20 + 3 * FOUR, rel=0.02)
    assert time.draft_ms(4, 1) == pytest.approx(FOUR + (SIXTEEN - FOUR) / 3, rel=0.01)


def test_what_came_since_a_trial_is_no_draft_of_each_step(time):
    """A model that rests drafts a chain now and then, whose first pass reads all that came since the last one."""
    before = time.draft_ms(1, 4)
    for read in (3, 5, 16):
        line = FOUR + (read - 4) * (SIXTEEN - FOUR) / 12 if read > 4 else ONE + (read - 1) * (FOUR - ONE) / 3
        for _ in range(DRAFTS):
            time.tried(read, 4, line + 3 * ONE)
    assert time.draft_ms(1, 4) == pytest.approx(before)
