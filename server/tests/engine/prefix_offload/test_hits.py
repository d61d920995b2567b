"""A8: the seed's line on where prompts' blocks were found."""

from windlass.engine.prefix_offload.hits import HitCount


def test_the_seeds_own_line() -> None:
    """Its figures give its shares; the seed cuts the last one off where we round."""
    count = HitCount(block_tokens=1)
    assert (
        count.add(177800, 21944, 66166)
        == "[HIT CNT] total: 177800, gpu: 21944 (12.34%) cpu: 66166 (37.21%) not hit: 89690 (50.44%)"
    )


def test_a_line_for_every_hundred_blocks() -> None:
    """Not for every step; whatever a step brings, one line."""
    count = HitCount(block_tokens=16)
    lines = [count.add(160, 0, 0) for _ in range(25)]
    assert [number for number, line in enumerate(lines) if line] == [9, 19]
    assert (count.add(16 * 1000, 16, 32) or "").startswith("[HIT CNT] total: 1250, gpu: 1 (0.08%) cpu: 2 (0.16%)")


def test_nothing_asked_is_no_division() -> None:
    """A step without prompts says nothing."""
    assert HitCount(16).add(0, 0, 0) is None
    assert HitCount(16).line == "[HIT CNT] total: 0, gpu: 0 (0.00%) cpu: 0 (0.00%) not hit: 0 (0.00%)"
