"""Many cases in one item: every case is tried, and each that fails is named with its values."""

import inspect

import pytest
from windlass_testbed.cases import every_case


def test_every_failure_is_named() -> None:
    """By its id or by its values; also where the test expects an error or meets one."""

    @every_case("number", (1, 2, 3), ids=("one", "two", "three"))
    @every_case("word, limit", [("a", 1), ("b", 2)])
    def check(number: int, word: str, limit: int, fixture: list[str]) -> None:
        fixture.append(f"{number}{word}")
        if number == 3:
            with pytest.raises(ValueError, match="never"):
                pass
        assert {"a": 1, "b": 2}[word] == limit
        assert number < limit

    tried: list[str] = []
    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(AssertionError) as failed:
        check(fixture=tried)
    assert tried == ["1a", "1b", "2a", "2b", "3a", "3b"]
    text = str(failed.value)
    assert text.startswith("3 of 3 cases:\none: line ")
    assert "1 of 2 cases:\nword='a', limit=1: line 20: assert 1 < 1" in text
    assert text.count("DID NOT RAISE") == 2


def test_a_test_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no case for row"):
        every_case("row", ())


def test_a_coroutine_is_refused() -> None:
    """Its body would not run."""
    with pytest.raises(TypeError, match="coroutine"):

        @every_case("row", (1,))
        async def check(row: int) -> None:
            raise AssertionError
