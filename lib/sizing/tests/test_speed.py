"""What is predicted of a plan's speed, and from what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement.formula import Serving
from windlass_sizing.speed import words
from windlass_sizing.speed.predict import Load, Speed, speed
from windlass_sizing.speed.table import CardSpeed, MethodSpeed, Origin, Table

SHAPES = json.loads((Path(__file__).parents[3] / "benchmarks/predictions/shapes.json").read_text())
CARD = CardSpeed(3500.0, 20.0, 0.2, 600.0, 250.0, 3.0)
TABLE = Table(
    {"H200": CARD},
    {"none": MethodSpeed(), "fp8": MethodSpeed(layer=1.1, prompt=1.3)},
    {"H200": Origin(("run",), ("qwen2-7b",), 28, 0.1, 0.2, None)},
)
SERVING = Serving(8192)


def facts(shape: str = "qwen2-7b") -> ModelFacts:
    return from_config(SHAPES[shape] | {"max_position_embeddings": 16384, "torch_dtype": "bfloat16"})


def of(shape: str = "qwen2-7b", serving: Serving = SERVING) -> Speed:
    found = speed(facts(shape), serving, "H200", TABLE)
    assert isinstance(found, Speed), found
    return found


def test_a_step_is_its_bytes_and_its_layers():
    """Qwen2-7B in float16: 14.1 GB without the embedding, 57 KB of KV cache a token, 28 layers."""
    params = 7_615_487_488 - 152064 * 3584
    cache = 100 * 2 * 4 * 128 * 28 * 2
    assert of().step_ms(1, 100) == pytest.approx((2 * params + cache) / 3.5e9 + 28 * 20.2e-3, rel=1e-3)


@pytest.mark.parametrize("shape", ["qwen2.5-1.5b", "llama-3.1-8b", "llama-2-13b"])
@given(requests=st.integers(1, 200), tokens=st.integers(1, 8000))
def test_more_of_anything_takes_longer(shape: str, requests: int, tokens: int):
    """More requests, a longer context, a longer prompt, more layers' bytes."""
    model = of(shape)
    assert model.step_ms(requests + 1, tokens) > model.step_ms(requests, tokens)
    assert model.step_ms(requests, tokens + 1) > model.step_ms(requests, tokens)
    assert model.prompt_ms(tokens + 1, tokens + 1) > model.prompt_ms(tokens, tokens)


@given(requests=st.integers(1, 256), tokens_in=st.integers(1, 8000), tokens_out=st.integers(2, 2000))
def test_a_load_agrees_with_itself(requests: int, tokens_in: int, tokens_out: int):
    """As many requests at once as requests a second times the time of each; alone, nobody waits."""
    load = Load(requests, tokens_in, tokens_out)
    seen, alone = of().under(load), of().under(replace(load, requests=1))
    whole_ms = seen.ttft_ms + (tokens_out - 1) * seen.ms_per_token
    assert seen.requests_per_s * whole_ms / 1000 == pytest.approx(requests)
    assert seen.ttft_ms >= alone.ttft_ms - 1e-9
    assert seen.ms_per_token >= alone.ms_per_token - 1e-9


def test_a_method_changes_what_it_changes():
    """Fewer bytes decode faster, more operations a second read prompts faster."""
    packed = of(serving=replace(SERVING, quantization="fp8"))
    assert packed.step_ms(1, 100) < of().step_ms(1, 100)
    assert packed.prompt_ms(8192, 8192) < of().prompt_ms(8192, 8192)


@pytest.mark.parametrize(
    ("shape", "change", "card", "why"),
    [
        ("qwen2-7b", {}, "L20", "no prediction for L20: it was not measured; measured are H200"),
        ("qwen2-7b", {"tp": 2}, "H200", "several GPUs"),
        ("qwen2-7b", {"quantization": "awq"}, "H200", "no prediction for awq: measured are fp8, none"),
        ("qwen2-7b", {"enforce_eager": True}, "H200", "CUDA graphs"),
        ("olmoe-1b-7b", {}, "H200", "only plain decoders"),
    ],
)
def test_what_was_not_measured_is_not_predicted(shape: str, change: dict[str, Any], card: str, why: str):
    """A sentence says what there is no measurement of."""
    found = speed(facts(shape), replace(SERVING, **change), card, TABLE)
    assert isinstance(found, str)
    assert why in found
    assert words.lines(words.document(facts(shape), replace(SERVING, **change), card, 140.0, TABLE)) == [found]


def test_the_document_has_what_the_kv_cache_holds():
    """On a card with 2 GiB left, 64 requests of 768 tokens do not fit; errors are those of held out rows."""
    found = words.document(facts(), SERVING, "H200", 19.4, TABLE)
    assert [row["requestsAtOnce"] for row in found["loads"]] == [1, 10]
    assert found["error"] == {"ttft": 0.2, "msPerToken": 0.1, "requestsPerSecond": None}
    first, *_, last = words.lines(found)
    assert "± 20 % ms" in first
    assert "± 10 % ms a token" in first
    assert last.startswith("predicted, not measured; fitted to 28 figures of qwen2-7b; 512 tokens in")


def test_an_unmeasured_error_is_reported():
    """Where one shape was measured, none was held out."""
    seen = Origin(("run",), ("qwen2-7b",), 28, None, None, None)
    found = words.document(facts(), SERVING, "H200", 140.0, replace(TABLE, origins={"H200": seen}))
    assert "the error on other shapes is not known" in found["note"]
    assert "±" not in "".join(words.lines(found))


def test_a_short_context_has_a_shorter_example():
    """Prompt and answer fit into it in the same proportion."""
    found = words.document(facts(), replace(SERVING, max_model_len=300), "H200", 140.0, TABLE)
    assert (found["promptTokens"], found["answerTokens"]) == (200, 100)
