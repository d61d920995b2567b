"""Numbers of the engine's flags, as the plan and the server read them."""

import pytest
from windlass_sizing.engine_flags import ENGINES, PLACED, PROMPT_RANKS, count_of, record


@pytest.mark.parametrize(
    ("line", "engines", "ranks"),
    [
        ("", None, None),
        ("-dp 2", 2, None),
        ("-dp=2 -pcp 4", 2, 4),
        ("--data_parallel_size=2 -dp 3", 3, None),
        ("--prefill-context=2", None, 2),
        ("-dp", None, None),
        ("-dp two -pcp 1e1", None, None),
        ("-dp 2 -dp -1", None, None),
        ("-dpl 2 --data-parallel-size-local 2", None, None),
        (f"-dp {'1' * 5000}", None, None),
    ],
)
def test_the_last_number_counts(line: str, engines: int | None, ranks: int | None) -> None:
    """In each spelling; a text that is no whole number is the engine's to refuse."""
    words = tuple(line.split())
    assert (count_of(words, ENGINES), count_of(words, PROMPT_RANKS)) == (engines, ranks)


def test_the_engine_has_each_flag() -> None:
    assert {*ENGINES, *PROMPT_RANKS, *PLACED} <= record().takes.keys()
