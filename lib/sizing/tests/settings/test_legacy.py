"""Start commands of older engines: moved flags, idle flags, and flags whose work is gone."""

import json

import pytest
from windlass_sizing.errors import SettingsError
from windlass_sizing.settings import legacy
from windlass_sizing.settings.flags import BY_NAME, Kind
from windlass_sizing.settings.parse import parse
from windlass_testbed.cases import every_case

EXAMPLE = {Kind.TEXT: "words", Kind.WHOLE: "4", Kind.SWITCH: "true", Kind.NAMES: "one"}


def modern(text: str, **environment: str) -> tuple[dict[str, str], list[str], list[str]]:
    line, told = legacy.modern(parse(tuple(text.split())), environment)
    return line.texts, list(line.engine_words), told


def config(words: list[str], flag: str = "--speculative-config") -> dict[str, object]:
    return dict(json.loads(words[words.index(flag) + 1]))


def test_draft_model_of_the_manual() -> None:
    """The manual's own start command: a draft model, the tokens it drafts, and the quantized draft of it."""
    text = "/m --speculative-model /draft --num-speculative-tokens 3 --speculative_model_quantization fp8"
    said, words, told = modern(f"{text} --block-size 16 -spec-draft-tp 1")
    assert said["model"] == "/m"
    assert words[:2] == ["--block-size", "16"]
    draft = {"model": "/draft", "quantization": "fp8", "draft_tensor_parallel_size": 1, "num_speculative_tokens": 3}
    assert config(words) == draft
    assert told == []


def test_tokens_come_from_the_variable_too() -> None:
    """A flag wins over its variable; without either the draft's own configuration says."""
    assert config(modern("--speculative-model /d", NUM_SPECULATIVE_TOKENS="5")[1])["num_speculative_tokens"] == 5
    words = modern("--speculative-model /d --num-speculative-tokens 2", NUM_SPECULATIVE_TOKENS="5")[1]
    assert config(words)["num_speculative_tokens"] == 2
    assert "num_speculative_tokens" not in config(modern("--speculative-model /d")[1])


def test_drafting_from_the_prompt() -> None:
    """[ngram] is a method today; its count of tokens has the older default when nobody says one."""
    words = modern("--speculative-model [ngram] --ngram-prompt-lookup-max 4 --ngram-prompt-lookup-min 2")[1]
    wanted = {"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    assert config(words) == wanted


@every_case("flag", legacy.IDLE)
def test_idle_flags_are_reported(flag) -> None:
    """Each is taken off the engine's words, and one sentence says that it does nothing."""
    said, words, told = modern(f"--{flag.name} {EXAMPLE[flag.kind]} --block-size 16")
    assert (said, words) == ({}, ["--block-size", "16"])
    assert told == [f"--{flag.name} has no effect: {flag.instead}"]


@pytest.mark.parametrize("flag", legacy.GONE, ids=lambda flag: flag.name)
def test_gone_flags_are_refused_with_what_to_do(flag) -> None:
    """The sentence names flag and remedy."""
    with pytest.raises(SettingsError) as refused:
        modern(f"--{flag.name} {EXAMPLE[flag.kind]}")
    assert str(refused.value).startswith(f"--{flag.name} ")
    assert flag.instead in str(refused.value)


def test_saying_no_to_what_is_gone_is_accepted() -> None:
    """A start command that switches it off wants nothing that we lack."""
    assert modern("--sequence-parallel-size 1")[1] == []


def test_other_moved_flags() -> None:
    """Structured output's backend is a key of its configuration; Ray is an executor."""
    words = modern("--guided-decoding-backend outlines --worker-use-ray")[1]
    assert config(words, "--structured-outputs-config") == {"backend": "outlines"}
    assert words[-2:] == ["--distributed-executor-backend", "ray"]


def test_old_and_new_at_once_are_refused() -> None:
    """Two places for one value."""
    with pytest.raises(SettingsError, match="leave one of the two out"):
        modern("--speculative-model /d --speculative-config {}")


def test_details_of_a_draft_without_a_draft() -> None:
    """They would be lost in silence."""
    with pytest.raises(SettingsError, match="--speculative-max-model-len counts only with --speculative-model"):
        modern("--speculative-max-model-len 100")


def test_wrong_values_name_the_flag() -> None:
    """The sentence is the one of every other flag."""
    with pytest.raises(SettingsError, match='--speculative-max-model-len is "much"'):
        modern("--speculative-model /d --speculative-max-model-len much")


def test_no_flag_stands_in_two_tables() -> None:
    """Today's flags and older ones are apart."""
    names = [flag.name for flag in (*(row.flag for row in legacy.MOVED), *legacy.IDLE, *legacy.GONE)]
    assert len(names) == len(set(names))
    assert not set(names) & set(BY_NAME)
