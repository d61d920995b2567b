"""Every option: its default, and the sentence for a value that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass_lookahead import OptionError, Options, options_from_directory, options_from_mapping
from windlass_lookahead.options import CONFIG_FILE, OPTIONS, entries_for_memory
from windlass_testbed.cases import every_case

DEFAULTS = {
    "cache_mode": 2,
    "cache_size": 5_000_000,
    "copy_length": 7,
    "match_length": 2,
    "turbo_match_length": 7,
    "min_match_length": 2,
    "cell_max_size": 16,
    "top_k": 1,
    "threshold": 2.0,
    "decay": 0.5,
    "is_hybrid": True,
    "log_interval": 3000,
    "target_parallelism": 512,
    "top_k_in_cell": 16,
    "token_paths_top_k": 2,
    "start_freq": 10.0,
    "num_threads": 8,
    "global_cache_switch": True,
    "ignore_prompt": False,
    "voc_size": 200_000,
    "max_seq_len": 32_768,
    "eos_token_id": 2,
}
BOUNDED = [(name, option) for name, option in OPTIONS.items() if option.kind in (int, float)]


def test_the_defaults_are_the_documented_ones():
    """A configuration of another engine means the same here."""
    assert {name: value for name, value in Options().as_mapping().items() if name in DEFAULTS} == DEFAULTS
    assert set(Options().as_mapping()) == set(OPTIONS)


@every_case("name, option", BOUNDED, ids=[name for name, _ in BOUNDED])
@every_case("side", [-1, 1])
def test_a_number_beyond_its_limits_is_refused(name, option, side):
    """The sentence names the option, the value and both limits."""
    value = option.least - 1 if side < 0 else option.most + 1
    with pytest.raises(OptionError, match=f"{name} is .*; it must be from {option.least:,} to {option.most:,}"):
        Options(**{name: value})


@every_case("name", sorted(OPTIONS))
def test_a_value_of_the_wrong_kind_is_refused(name):
    """A list is no option's value, and a truth value is no number."""
    with pytest.raises(OptionError, match=f"{name} is .*; it must be "):
        Options(**{name: [1]})
    if OPTIONS[name].kind is not bool:
        with pytest.raises(OptionError, match=name):
            Options(**{name: True})


def test_a_shortest_match_above_the_longest_is_refused():
    """The two lengths are checked together."""
    with pytest.raises(OptionError, match="min_match_length 5 is above turbo_match_length 4"):
        Options(min_match_length=5, turbo_match_length=4)


def test_the_file_of_the_directory_is_read(tmp_path):
    """lookahead_cache_config.json sets options; what the model knows wins."""
    (tmp_path / CONFIG_FILE).write_text(json.dumps({"copy_length": 5, "voc_size": 10}))
    options = options_from_directory(tmp_path, voc_size=151_936)
    assert (options.copy_length, options.voc_size) == (5, 151_936)


def test_a_directory_without_the_file_means_the_defaults(tmp_path):
    """The flag may name any directory."""
    assert options_from_directory(tmp_path) == Options()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not readable JSON"),
        ("[1]", "must hold one JSON object"),
        ('{"copy_lenght": 5}', "has no option 'copy_lenght'; it knows: cache_mode"),
        ('{"decay": "x"}', 'decay is "x"; it must be a number'),
    ],
)
def test_a_broken_file_is_a_sentence_that_names_it(tmp_path, content, words):
    """What, where and what to do."""
    (tmp_path / CONFIG_FILE).write_text(content)
    with pytest.raises(OptionError, match=words) as caught:
        options_from_directory(tmp_path)
    assert CONFIG_FILE in str(caught.value)


def test_a_missing_directory_is_named(tmp_path):
    """The flag is wrong, not the file."""
    with pytest.raises(OptionError, match=r"none does not exist"):
        options_from_directory(tmp_path / "none")


def test_the_smaller_of_cache_size_and_memory_share_wins():
    """15 % of 1 GiB holds 8 million entries, of 100 MiB fewer than the default."""
    assert entries_for_memory(5_000_000, 2**30, 0.15) == 5_000_000
    assert entries_for_memory(5_000_000, 100 * 2**20, 0.15) < 1_000_000
    with pytest.raises(OptionError, match="above 0 and at most 1"):
        entries_for_memory(5_000_000, 2**30, 0.0)


def test_an_unknown_name_in_a_mapping_says_where():
    """The caller's words name the place."""
    with pytest.raises(OptionError, match="flags has no option 'x'"):
        options_from_mapping({"x": 1}, "flags")


def test_every_option_is_in_the_reference_with_its_meaning():
    """The page and the table of options say the same."""
    page = (Path(__file__).parents[4] / "docs/reference/lookahead.md").read_text()
    missing = [name for name, option in OPTIONS.items() if f"| `{name}` |" not in page or option.meaning not in page]
    assert missing == []
