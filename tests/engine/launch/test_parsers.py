"""The table of parsers against the engine's own: every name is registered, and each parser reads its models' text."""

import pytest
from windlass.launch.parsers import REASONING, TOOLS

from .parser_samples import CALL, SAMPLES

NO_SAMPLE = {"openai", "openai_gptoss"}
"""gpt-oss is read with a vocabulary that the engine downloads."""


@pytest.fixture(scope="module")
def found(engine):
    return engine.result("/repo/tests/engine/launch/parse_samples.py")


def test_every_name_is_registered(found):
    names = found["registered"]
    assert {row.parser for row in TOOLS} - set(names["tools"]) == set()
    assert {row.parser for row in REASONING} - set(names["reasoning"]) == set()


def test_every_row_has_a_sample():
    sampled = {name for sample in SAMPLES for name in (sample.tools, sample.reasoning)}
    assert {row.parser for row in (*TOOLS, *REASONING)} - sampled == NO_SAMPLE


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[sample.checkpoint for sample in SAMPLES])
def test_a_sample(found, number):
    """The marks name the parsers, and these read the thought and the call; what the engine gets wrong is not taken."""
    sample, became = SAMPLES[number], found["samples"][number]
    assert "failed" not in became, became
    expected = {"reasoning": sample.thought, "content": "", "calls": [CALL] if sample.tools else []}
    wrong = {way: answer for way, answer in became["answers"].items() if answer != expected}
    if sample.is_untaken:
        both = zip((sample.tools, sample.reasoning), became["taken"], strict=True)
        assert any(name not in ("", taken) and name in " ".join(became["why"]) for name, taken in both)
        assert wrong, "the engine reads it now: the row may be taken"
    else:
        assert became["taken"] == [sample.tools, sample.reasoning]
        assert set(wrong) == ({"by 4"} if sample.breaks_by_several else set()), wrong
