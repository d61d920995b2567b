"""`no_repeat_ngram_size`, online and offline: beside transformers' rule, and in real answers."""

import json

import httpx
import pytest

from .own_commands import BEARER

QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]


@pytest.fixture(scope="module")
def found(engine):
    return engine.result("/repo/tests/engine/api/no_repeat.py", "/repo/models/demo")


@pytest.fixture(scope="module")
def http(short):
    with httpx.Client(base_url=short, headers=BEARER, timeout=120) as client:
        yield client


def long_answer(http, **fields):
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 90, "ignore_eos": True, "return_token_ids": True}
    answer = http.post("/v1/chat/completions", json=body | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["token_ids"]


def twice(tokens, size):
    runs = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
    return len(runs) - len(set(runs))


@pytest.mark.parametrize("runner", ["host", "device"])
def test_it_takes_out_what_transformers_takes_out(found, runner):
    """On 100 random batches, for each of the engine's two runners; on the device with drafts as well."""
    assert found[runner] == 0, f"{found[runner]} of 100 batches differ"


def test_both_runners_take_the_class_by_its_name(found):
    """And refuse what is no size before the request reaches the engine."""
    assert len(found["front_ends"]) == 2
    assert all("no_repeat_ngram_size is -1; it must be a whole number" in said for said in found["front_ends"])


def test_an_offline_answer_repeats_nothing(found):
    """No run of the size comes twice, where without the rule many do; a batch of others changes nothing."""
    assert found["engine"]["repeated"]["plain"] > 10
    assert (found["engine"]["repeated"]["2"], found["engine"]["repeated"]["3"]) == (0, 0)
    assert found["engine"]["same_in_a_batch"]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_an_answer_of_the_server_repeats_nothing(http, size):
    assert twice(long_answer(http), size) > 10
    assert twice(long_answer(http, no_repeat_ngram_size=size), size) == 0


def test_size_one_never_says_a_token_twice(http):
    tokens = long_answer(http, no_repeat_ngram_size=1)
    assert len(set(tokens)) == len(tokens)


def test_it_holds_beside_a_grammar(http):
    """Where a schema leaves one token only, that token is said, be it a repeat."""
    shape = {"type": "json_schema", "json_schema": {"name": "row", "schema": {"const": "aaaaaaaaaaaaaaaa"}}}
    body = {"messages": QUESTION, "max_tokens": 60, "temperature": 0, "response_format": shape}
    answer = http.post("/v1/chat/completions", json=body | {"no_repeat_ngram_size": 1})
    assert answer.json()["choices"][0]["message"]["content"] == '"aaaaaaaaaaaaaaaa"'


def test_a_stream_says_the_same(http):
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 60, "ignore_eos": True, "no_repeat_ngram_size": 2}
    whole = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    pieces = http.post("/v1/chat/completions", json=body | {"stream": True}).text
    parts = [json.loads(line[6:]) for line in pieces.splitlines() if line.startswith("data: {")]
    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in parts) == whole


@pytest.mark.parametrize("place", ["field", "xargs"])
@pytest.mark.parametrize("size", [-1, 129, 1.5, "3"])
def test_what_is_no_size_is_400(http, place, size):
    """At the top, and where vLLM itself looks."""
    fields = {"no_repeat_ngram_size": size}
    body = {"messages": QUESTION, **(fields if place == "field" else {"vllm_xargs": fields})}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "it must be a whole number from 0 to 128" in answer.json()["error"]["message"]
