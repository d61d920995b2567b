"""Lookahead in the CPU image: output unchanged, drafts accepted, distribution kept, counts at /metrics.

`make identity` is the whole of the first part: every workload, row, mode and batch size. Not collected by itself: it
needs an image that brings the native core, which images/server-cpu does not yet.
"""

import json
import re

import httpx
import pytest

IDENTITY = "/repo/benchmarks/lookahead/identity.py"
MODEL = "/repo/models/demo"
SAMPLE = ("--workloads", "repeat-50", "--rows", "12", "--batches", "4", "--modes", "2", "--draws", "2000")
ASK = {
    "model": "model",
    "messages": [{"role": "user", "content": "What does os.path.join do?"}],
    "temperature": 0,
    "max_tokens": 60,
}


def test_output_is_unchanged(engine):
    """Repeats, a batch that is preempted, and 2,000 draws; at least 30 % of the tokens are accepted drafts."""
    found = engine.result(IDENTITY, MODEL, *SAMPLE)
    for line in found["lines"]:
        print(json.dumps(line))
    assert found["red"] == []
    repeats, preempted = found["lines"]
    assert (repeats["different"], preempted["different"]) == (0, 0)
    assert repeats["accepted"] >= 0.3
    assert preempted["preempted"] > 0


def test_a_broken_token_is_found(engine):
    """One accepted token changed in the engine turns the same comparison red."""
    with pytest.raises(pytest.fail.Exception, match="exited with 1"):
        engine.python(IDENTITY, MODEL, *SAMPLE, "--break-a-token")


def counter(address, name):
    found = re.search(rf'^{name}{{engine="0"}} (\S+)$', httpx.get(f"{address}/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def answer(address, **more):
    return httpx.post(f"{address}/v1/chat/completions", json=ASK | more, timeout=120)


def test_served_by_the_start_command(engine):
    """USE_LOOKAHEAD: the same question again is drafted from the first answer, and the counts say so."""
    words = ("windlass", "run", "--dtype", "float32", "--max-model-len", "512")
    with engine.serving(*words, USE_LOOKAHEAD="1", NUM_SPECULATIVE_TOKENS="8") as address:
        first, second = (answer(address).json()["choices"][0]["message"]["content"] for _ in range(2))
        assert first == second
        refused = answer(address, no_repeat_ngram_size=3)
        assert refused.status_code == 400 and "the engine speculates" in refused.text
        for _ in range(20):
            if hits := counter(address, "windlass_lookahead_hit_len_total"):
                break
            answer(address, max_tokens=2)
        assert hits >= 20
        assert counter(address, "windlass_lookahead_global_average_hit_len") > 0.3


def test_a_broken_configuration_ends_the_start(engine, tmp_path):
    """One sentence and exit code 2, before the engine starts."""
    (tmp_path / "lookahead_cache_config.json").write_text('{"cache_mode": 5}')
    tmp_path.chmod(0o755)
    words = ("-m", "windlass.cli.main", "run", "--model", MODEL, "--lookahead-cache-config-dir", "/lookahead")
    with pytest.raises(pytest.fail.Exception, match="cache_mode is 5; it must be from 0 to 2"):
        engine.python(*words, mounts={tmp_path: "/lookahead"})
