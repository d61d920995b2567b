"""How a context length is written, for the server's flag and for the plan."""

import pytest
from windlass_sizing.model.context_length import ENGINE_DECIDES, tokens_of
from windlass_testbed.cases import every_case


@every_case(
    "text, tokens",
    [
        ("8192", 8192), ("8k", 8000), ("8K", 8192), ("1m", 10**6), ("1M", 2**20), ("0", None), ("0K", None),
        ("", None), ("K", None), ("8 K", None), ("1.5K", None), ("8G", None), ("many", None),
    ],
)  # fmt: skip
def test_what_a_text_says(text: str, tokens: int | None) -> None:
    """Small units are powers of ten, capital ones of two."""
    assert tokens_of(text) == tokens


@pytest.mark.parametrize("text", ENGINE_DECIDES)
def test_what_the_engine_decides_is_no_number(text: str) -> None:
    """Above all -1, which would be planned as one token less than none."""
    assert tokens_of(text) is None
