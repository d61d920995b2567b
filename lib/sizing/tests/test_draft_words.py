"""The engine's flags for drafts, as the server and the plan read them, and how many tokens go into a context."""

import pytest
from windlass_sizing.model.draft_words import drafted_most, guessed, requested

NGRAM = {"method": "ngram"}


@pytest.mark.parametrize(
    ("words", "config", "others"),
    [
        (("--speculative-config", '{"method": "ngram"}'), NGRAM, ()),
        (('--speculative_conf={"method": "ngram"}',), NGRAM, ()),
        (("-sc.method", "ngram", "--seed", "1"), NGRAM, ("--seed", "1")),
        (("--spec-meth=ngram",), NGRAM, ()),
        (("-sc", '{"method": "eagle", "model": "/d"}', "--spec-method", "ngram"), {**NGRAM, "model": "/d"}, ()),
        (("-sc.num-speculative-tokens", "4"), {"num_speculative_tokens": 4}, ()),
    ],
)
def test_each_spelling_is_read(words: tuple[str, ...], config: dict[str, object], others: tuple[str, ...]) -> None:
    """Keys of later words stand over those of earlier ones."""
    found = requested(words)
    assert found is not None
    assert (found.config, found.others) == (config, others)


def test_other_words_ask_for_nothing() -> None:
    assert requested(("--seed", "1", "--max-model-len=4k")) is None


def test_a_configuration_is_an_object() -> None:
    with pytest.raises(ValueError, match="--speculative-config is no JSON object: ngram; write"):
        requested(("--speculative-config", "ngram"))


@pytest.mark.parametrize(
    ("words", "method", "directory"),
    [
        (("--spec-model", "/data/draft"), "", "/data/draft"),
        (("--spec-model", "ngram"), "", ""),
        (("--spec-model", "my.own.Proposer"), "", ""),
        (("--spec-model", "/d/dflash-7b"), "", ""),
        (("--spec-method", "eagle"), "eagle", ""),
        (("--spec-method", "eagle", "--spec-model", "/d"), "eagle", "/d"),
        (("--spec-method", "ngram", "--spec-model", "/d"), "ngram", ""),
    ],
)
def test_a_directory_is_one_of_a_method_with_rules(words: tuple[str, ...], method: str, directory: str) -> None:
    found = requested(words)
    assert found is not None
    assert (found.method, found.directory) == (method, directory)


def test_a_path_may_stand_for_a_method() -> None:
    assert [guessed(path) for path in ("/d/EAGLE-llama", "/d/eagle3", "/d/qwen")] == ["eagle", "eagle3", ""]


@pytest.mark.parametrize(("context", "most"), [(None, 128), (8192, 128), (129, 128), (128, 127), (7, 6), (1, 0)])
def test_a_draft_is_shorter_than_the_context(context: int | None, most: int) -> None:
    assert drafted_most(context) == most
