"""A8 on vLLM's own classes: chunks that are kept, skipped and found again; and the CPU engine, which does without."""

import httpx

from ..conftest import KEYS


def test_chunks_are_kept_by_reuse(engine):
    """vLLM's manager holds four chunks here. A whole cache without a hit closes the gate; a look for a key opens it."""
    assert engine.result("/repo/tests/engine/launch/prefix_parts.py") == {
        "kept": [2, 2, 2],
        "came back": 2,
        "closed": [2, 2, 2, 0],
        "skipped": 2,
        "open again": 2,
        "after a reset": 0,
        "second time": [0, 2],
        "layout": "BLHNC",
        "counted": [None, {"promptTokens": 320, "gpuTokens": 48, "hostTokens": 64}],
    }


def test_one_that_is_alone_is_copied_inside_its_step(engine):
    """vLLM marks such blocks as cached before it copies, and copies none that is marked; ours come without marks."""
    assert engine.result("/repo/tests/engine/launch/in_step_parts.py") == {
        "alone": [9_984, False],
        "step": ["a"],
        "beside": [9_984, True],
        "alone again": [9_984, False],
        "beside one that came back": [9_984, True],
        "preempted": ["b"],
        "waits": ["end of 1"],
        "reported": [["b"], ["a", "b"]],
        "copied": {"marked": 0, "ours": 624, "behind 256 tokens": 608},
        "renamed": [],
    }


def test_the_cpu_engine_serves_without(engine, keyed):
    """One sentence says why; the server answers."""
    headers = {"Authorization": f"Bearer {KEYS[0]}"}
    assert httpx.get(f"{keyed}/v1/models", headers=headers, timeout=30).status_code == 200
    assert "--enable-prefix-cache-offload is off for this start" in engine.output(keyed)
