"""When an engine hangs: work, and no end of a step for longer than any step before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.front.progress.rule import TIMES, Progress


def progress(floor_s: float = 10.0) -> Progress:
    """One whose engine has ended a step."""
    made = Progress(floor_s)
    made.step_ended()
    return made


def test_work_without_a_step_is_a_hang() -> None:
    """From the bound on, until a step ends."""
    one = progress()
    one.passed(9.9, has_work=True)
    assert not one.is_stalled
    one.passed(0.1, has_work=True)
    assert one.is_stalled
    one.step_ended()
    assert not one.is_stalled


def test_rest_is_no_hang() -> None:
    """The time before the work does not count."""
    one = progress()
    one.passed(1000, has_work=False)
    one.passed(5, has_work=True)
    assert not one.is_stalled
    one.passed(5, has_work=False)
    one.passed(9, has_work=True)
    assert not one.is_stalled


def test_a_long_step_allows_longer_ones() -> None:
    """A long prefill that was seen is no hang when it comes again."""
    one = progress()
    one.passed(8, has_work=True)
    one.step_ended()
    assert one.bound_s == 16
    one.passed(15.9, has_work=True)
    assert not one.is_stalled


@pytest.mark.parametrize("made", [Progress(10), progress(0)], ids=["no step was ever reported", "switched off"])
def test_who_is_not_judged(made: Progress) -> None:
    """Without reports nothing is known."""
    made.passed(1e6, has_work=True)
    assert not made.is_stalled


def test_a_paused_engine_is_forgiven() -> None:
    """The pause is no step that took long."""
    one = progress()
    one.passed(100, has_work=True)
    one.forgive()
    one.step_ended()
    assert (one.is_stalled, one.bound_s) == (False, 10)


def test_the_sentence() -> None:
    """It says what the engine did last."""
    one = progress()
    one.passed(12, has_work=True)
    assert one.sentence(3) == (
        "the engine holds 3 requests and has ended no step for 12 s; "
        "the longest of the 1 steps before took less than a second"
    )


@given(st.lists(st.tuples(st.floats(0.01, 50), st.booleans()), max_size=60))
def test_no_alarm_while_every_step_is_below_the_floor(turns: list[tuple[float, bool]]) -> None:
    """However work comes and goes; and the bound never falls below the floor or twice the longest step."""
    one = progress(60)
    for seconds, has_work in turns:
        one.passed(seconds, has_work=has_work)
        assert not one.is_stalled
        one.step_ended()
        assert one.bound_s == max(60, TIMES * one.longest_s)


def test_a_step_reported_to_another_process_is_a_step() -> None:
    """The engine reports each step to one of several API processes, and never in turn."""
    one = Progress(10.0)
    one.stepped_elsewhere(3)
    one.passed(9, has_work=True)
    one.stepped_elsewhere(4)
    one.passed(9, has_work=True)
    assert not one.is_stalled
    one.stepped_elsewhere(4)
    one.passed(9, has_work=True)
    assert one.is_stalled
    assert "the longest of the 4 steps before took 9 s" in one.sentence(1)
