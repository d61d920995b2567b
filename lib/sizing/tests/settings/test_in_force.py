"""Settings in force: which layer wins, what cannot be read, and how flags may be written."""

from __future__ import annotations

import pytest
from windlass_sizing.engine_flags import EngineFlags, record
from windlass_sizing.errors import SettingsError
from windlass_sizing.settings.flags import BY_NAME, FLAGS, Kind
from windlass_sizing.settings.in_force import Layers, Settings, settings_in_force
from windlass_sizing.settings.legacy import NAMES
from windlass_sizing.settings.parse import split
from windlass_sizing.settings.setting import DEFAULT, FIELD, FLAG, FROM_FILE
from windlass_testbed.cases import every_case

TOKENS, VARIABLE = "num-speculative-tokens", "NUM_SPECULATIVE_TOKENS"
TEXTS = {Kind.SWITCH: "true", Kind.FRACTION: "0.5", Kind.TEXT: "auto", Kind.ADAPTERS: "sql=/l/sql"}
SHORT = {
    f"--{flag.name}": f"--{flag.name}"[:length]
    for flag in FLAGS
    for length in range(3, len(flag.name) + 2)
    if record().meant(f"--{flag.name}"[:length]) == f"--{flag.name}"
}
"""The longest beginning of each of our flags that the engine's parser takes for the whole."""


def in_force(*words: str, **layers: object) -> Settings:
    return settings_in_force(Layers(split(words, BY_NAME), **layers))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "layers", "value", "source"),
    [
        ((), {}, 6, DEFAULT),
        ((), {"below": {TOKENS: ("2", FROM_FILE)}}, 2, FROM_FILE),
        ((), {"below": {TOKENS: ("2", FROM_FILE)}, "environment": {VARIABLE: "3"}}, 3, f"variable {VARIABLE}"),
        ((), {"environment": {VARIABLE: "3"}, "fields": {TOKENS: "4"}}, 4, FIELD),
        ((f"--{TOKENS}", "5"), {"environment": {VARIABLE: "3"}, "fields": {TOKENS: "4"}}, 5, FLAG),
        ((), {"environment": {VARIABLE: ""}}, 6, DEFAULT),
    ],
)
def test_the_strongest_layer_wins(words, layers, value, source):
    """Flag, field, variable, file, default."""
    found = in_force(*words, **layers)
    assert (found.value(TOKENS), found.source(TOKENS), found.problems) == (value, source, ())
    assert found.is_given(TOKENS) == (source != DEFAULT)


def test_a_text_that_cannot_be_read_leaves_the_next_layer():
    """The server ends with the sentence; a plan goes on."""
    found = in_force(f"--{TOKENS}", "many", environment={VARIABLE: "3"})
    sentence = f'--{TOKENS} is "many", which is no whole number; write it as digits, as 2'
    assert (found.value(TOKENS), found.problems, found.names(f"--{TOKENS}")) == (3, (sentence,), True)
    with pytest.raises(SettingsError) as refused:
        found.checked()
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "words", [("--tp", "--seed", "1"), ("--seed", "1", "--tp"), ("--seed=1", "--no-use-lookahead=x")]
)
def test_a_flag_that_cannot_be_taken_leaves_the_others(words):
    found = in_force(*words)
    assert (found.value("seed"), found.is_given("tensor-parallel-size"), len(found.problems)) == (1, False, 1)


def test_the_engines_own_words_stay():
    """In their order; the last of two equal flags has the value, and a key is no value of the whole flag."""
    words = ("--kv-offloading-s", "4", "--seed", "1", "--kv_offloading_size=8", "--kv-transfer-config.a", "x")
    found = in_force(*words)
    assert found.engine_words == (*words[:2], *words[4:])
    assert found.engine_value("--kv-offloading-size") == "8"
    assert found.engine_value("--kv-transfer-config") is None
    assert found.names("--kv-transfer-config") and found.names("--seed") and not found.names("--tensor-parallel-size")


def test_a_number_where_there_is_none_is_zero():
    """As is one of a row whose value is a word."""
    found = in_force("--max-model-len", "auto")
    assert (found.whole("max-model-len"), found.whole("seed"), found.whole("port")) == (0, 0, 8501)


def test_most_flags_can_be_shortened():
    """Else the next test tests nothing."""
    assert {"--max-model-len", "--tensor-parallel-size", "--enforce-eager", "--gpu-memory-utilization"} < set(SHORT)


@every_case("flag, short", SHORT.items())
def test_a_beginning_stands_for_the_whole_flag(flag, short):
    """With the value behind it, joined to it, and with underscores; not where the program has no such record."""
    text = TEXTS.get(BY_NAME[flag[2:]].kind, "2")
    whole = in_force(flag, text)
    assert whole.problems == ()
    for words in ((short, text), (f"{short}={text}",), ("--" + short[2:].replace("-", "_"), text)):
        assert in_force(*words) == whole
    assert split((f"{short}={text}",), BY_NAME, EngineFlags("", {})).texts == {}


@every_case("name", sorted({*BY_NAME, *NAMES}))
def test_a_flag_of_ours_is_no_beginning_of_another(name):
    """Or it would be read as the engine's."""
    assert record().meant(f"--{name}") == f"--{name}"


def test_every_spelling_of_the_split_is_read():
    """Flags of one dash are read, too."""
    for word in ("--tensor-parallel-size", "--num-gpus", "--tp", "-tp", "--tensor_parallel_size"):
        assert in_force(word, "4").value("tensor-parallel-size") == 4
        assert in_force(f"{word}=4").value("tensor-parallel-size") == 4
