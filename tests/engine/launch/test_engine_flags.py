"""The record of the engine's flags against the engine's own parser."""

import json

import pytest
from windlass_sizing import engine_flags
from windlass_sizing.errors import SettingsError
from windlass_sizing.settings import engine_words


@pytest.fixture(scope="module")
def parsers(engine):
    return engine.result("/repo/tools/engine_flags.py")


def test_the_record_is_what_the_engine_has(parsers):
    """A change fails here until it is recorded, and read in the diff: `python tools/engine_flags.py RELEASE`."""
    assert parsers == json.loads(engine_flags.RECORD.read_text())["flags"]


def test_every_flag_of_the_engine_passes_the_check(parsers):
    values = {"one": ["1"], "one or more": ["1", "2"]}
    for name, takes in parsers.items():
        engine_words.check((name, *values.get(takes, [])), engine_flags.record())


def test_a_flag_that_leaves_the_engine_is_refused(parsers):
    left = next(iter(sorted(parsers, key=len, reverse=True)))
    record = engine_flags.record()
    less = engine_flags.EngineFlags(record.release, {n: t for n, t in record.takes.items() if n != left})
    with pytest.raises(SettingsError, match=f"there is no flag {left}"):
        engine_words.check((left,), less)
