"""Ranges and defaults of the request's fields."""

import pytest
from windlass.api import fields
from windlass.api.body import parse, prepare, rewrite
from windlass.api.routes import ROUTES
from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings
from windlass_testbed.cases import every_case

CHAT = ROUTES["/v1/chat/completions"]
SETTINGS = ApiSettings(served_names=("demo",))


@every_case(
    "name, value, words",
    [
        ("temperature", 2.1, "a number from 0 to 2"),
        ("temperature", -0.1, "a number from 0 to 2"),
        ("temperature", "hot", "a number from 0 to 2"),
        ("temperature", True, "a number from 0 to 2"),
        ("top_p", 0, "a number above 0 and at most 1"),
        ("top_p", 1.01, "a number above 0 and at most 1"),
        ("top_k", -2, "a whole number of at least -1"),
        ("top_k", 1.5, "a whole number of at least -1"),
        ("presence_penalty", 2.01, "a number from -2 to 2"),
        ("frequency_penalty", -2.01, "a number from -2 to 2"),
        ("repetition_penalty", 0.99, "a number from 1 to 2"),
        ("repetition_penalty", 2.01, "a number from 1 to 2"),
        ("max_tokens", 0, "a whole number of at least 1"),
        ("stream", "yes", "true or false"),
        ("stop", [1], "a string or list of strings"),
        ("seed", 2**63, "a whole number"),
        ("no_repeat_ngram_size", -1, "a whole number from 0 to 128"),
        ("no_repeat_ngram_size", 129, "a whole number from 0 to 128"),
    ],
)
def test_a_wrong_value_is_named_with_its_range(name: str, value: object, words: str) -> None:
    """The sentence holds the field, the value and what is right."""
    with pytest.raises(Refusal) as caught:
        fields.check({name: value})
    assert caught.value.status == 400
    assert caught.value.param == name
    assert caught.value.message.startswith(f"{name} is ")
    assert caught.value.message.endswith(f"it must be {words}")


@pytest.mark.parametrize(
    "document",
    [
        {"temperature": 0, "top_p": 1, "top_k": -1, "presence_penalty": -2, "repetition_penalty": 1},
        {"temperature": 2.0, "top_p": 0.01, "frequency_penalty": 2, "repetition_penalty": 2.0, "stop": ["a", "b"]},
        {"temperature": None, "stop": "end", "seed": -1},
        {"max_tokens": 0, "echo": True},
    ],
)
def test_the_edges_are_right(document: dict) -> None:
    """Ranges include their ends, null counts as left out, and echo needs no new token."""
    fields.check(document)


def test_defaults_of_the_seed() -> None:
    """Without a field, the documented default reaches the engine."""
    prepared = prepare({"messages": []}, CHAT, SETTINGS)
    assert prepared == {
        "messages": [],
        "model": "demo",
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
    }


def test_precedence_is_request_then_model_then_default() -> None:
    """What the request or the model's generation_config.json sets is not touched."""
    settings = ApiSettings(generation_fields=("top_p", "temperature"))
    prepared = prepare({"temperature": 0.1, "top_k": None}, CHAT, settings)
    assert (prepared["temperature"], prepared["top_k"], "top_p" in prepared) == (0.1, -1, False)


def test_ngram_size_moves_to_the_engines_extra_arguments() -> None:
    """The engine takes it as `vllm_xargs`; what a client put there stays."""
    prepared = prepare({"no_repeat_ngram_size": 3, "vllm_xargs": {"other": 1}}, CHAT, SETTINGS)
    assert prepared["vllm_xargs"] == {"no_repeat_ngram_size": 3, "other": 1}
    assert "no_repeat_ngram_size" not in prepared


def test_extra_stop_ids_join_the_requests() -> None:
    """Each id once, the request's first."""
    prepared = prepare({"stop_token_ids": [7, 2]}, CHAT, ApiSettings(extra_stop_ids=(2, 9)))
    assert prepared["stop_token_ids"] == [7, 2, 9]


@pytest.mark.parametrize("model", [None, ""])
def test_an_empty_model_is_the_first_served(model: str | None) -> None:
    """Left out, null and empty mean the same."""
    assert prepare({"model": model}, CHAT, SETTINGS)["model"] == "demo"


def test_a_model_that_is_no_string_is_refused() -> None:
    """Before the engine sees it."""
    with pytest.raises(Refusal, match="model must be a string"):
        prepare({"model": 3}, CHAT, SETTINGS)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"a": 1,\n "b" 2}', "Expecting ':' delimiter at line 2, column 6"),
        (b"", "Expecting value at line 1, column 1"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b"[1]", "JSON but a list"),
        (b'{"a":' + b"9" * 5000 + b"}", "cannot be read as JSON"),
    ],
)
def test_broken_json_is_reported_with_its_place(raw: bytes, words: str) -> None:
    """The position is where a person looks first."""
    with pytest.raises(Refusal, match=words.replace("(", r"\(")) as caught:
        parse(raw)
    assert caught.value.status == 400


def test_deep_nesting_is_refused() -> None:
    """A body cannot exhaust the stack."""
    with pytest.raises(Refusal, match="nested more than 64 deep"):
        rewrite(b'{"a":' + b"[" * 65 + b"]" * 65 + b"}", CHAT, SETTINGS)
