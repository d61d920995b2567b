"""What refuses a start before the engine is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass.errors import UsageError
from windlass.lookahead import ready
from windlass.lookahead.settings import VARIABLE, LookaheadSettings


def check(folder: Path, exchanges: object, **options: int) -> None:
    (folder / "warm.json").write_text(json.dumps(exchanges))
    (folder / "lookahead_cache_config.json").write_text(json.dumps({"warmup_file": f"{folder}/warm.json", **options}))
    ready.check({VARIABLE: LookaheadSettings(config_dir=str(folder)).to_json()}, vocabulary=8000)


def test_a_warm_up_file_in_the_models_tokens_is_taken(tmp_path):
    """By the model's vocabulary, whatever the configuration says of its size."""
    check(tmp_path, [{"prompt": [1, 7999], "output": []}], voc_size=100)


@pytest.mark.parametrize(
    ("exchange", "words"),
    [
        ({"prompt": [8000], "output": []}, "exchange 1: token id 8000 at index 0 is outside the vocabulary"),
        ({"prompt": [1], "output": ["two"]}, "exchange 1: the token id at index 0 is not an integer from 0 up"),
        ({"prompt": [1]}, 'exchange 1: needs "prompt" and "output"'),
    ],
)
def test_a_warm_up_file_of_another_model_is_refused(tmp_path, exchange, words):
    """With the exchange, and what to do."""
    with pytest.raises(UsageError, match=words) as error:
        check(tmp_path, [{"prompt": [1], "output": [2]}, exchange])
    assert str(error.value).startswith("--lookahead-cache-config-dir: warm-up file ")
    assert str(error.value).endswith("; correct it or leave it out")


def test_an_image_without_the_core_says_so(monkeypatch):
    """Only where lookahead is asked for."""
    monkeypatch.setattr(ready, "PACKAGE", "windlass_lookahead_that_is_not_here")
    ready.check({})
    with pytest.raises(UsageError, match="needs the package windlass-lookahead; install windlass-server"):
        ready.check({VARIABLE: LookaheadSettings().to_json()})
