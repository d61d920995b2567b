"""What the batch does next, as a function of values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass_deepspeed.schedule import Join, Limits, Sleep, Step, decide

LIMITS = Limits(batch_size=4, wait_s=0.125)


@pytest.mark.parametrize(
    ("waiting", "oldest_s", "live", "now_s", "action"),
    [
        pytest.param(0, 0, 0, 5, Sleep(), id="idle"),
        pytest.param(1, 5, 0, 5, Sleep(0.125), id="the first waits for others"),
        pytest.param(1, 5, 0, 5.2, Join(1), id="nobody else came"),
        pytest.param(4, 5, 0, 5, Join(4), id="full at once"),
        pytest.param(9, 5, 0, 5, Join(4), id="more than a batch"),
        pytest.param(0, 0, 2, 5, Step(), id="decoding"),
        pytest.param(3, 5, 2, 5, Join(2), id="joins between steps without a wait"),
        pytest.param(3, 5, 4, 5, Step(), id="no room"),
    ],
)
def test_table(waiting: int, oldest_s: float, live: int, now_s: float, action: object) -> None:
    """Each state and what follows."""
    assert action == decide(waiting, oldest_s, live, now_s, LIMITS)


@given(
    waiting=st.integers(0, 50),
    live=st.integers(0, 50),
    waited_s=st.floats(0, 10),
    size=st.integers(1, 32),
    wait_s=st.floats(0, 5),
)
def test_never_more_than_a_batch_and_never_longer_than_the_wait(
    waiting: int, live: int, waited_s: float, size: int, wait_s: float
) -> None:
    """Whatever is waiting and running: the batch fits, sleep ends, and work is never left lying."""
    live = min(live, size)
    action = decide(waiting, 100.0, live, 100.0 + waited_s, Limits(size, wait_s))
    if isinstance(action, Join):
        assert 0 < action.count <= min(waiting, size - live)
    elif isinstance(action, Step):
        assert live
        assert not waiting or live == size
    else:
        assert not live
        assert action.seconds is None if not waiting else 0 < action.seconds <= wait_s + 1e-6
