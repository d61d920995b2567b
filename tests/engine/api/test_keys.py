"""A key file with limits before real vLLM: what a key hears at its limit, and what its answers count.

The file is that of the fixture `keyed`.
"""

import json
import re

import httpx
import pytest

QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]


@pytest.fixture
def http(keyed):
    with httpx.Client(base_url=keyed, timeout=120) as found:
        yield found


def request(key: str, **fields) -> dict:
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 40, **fields}
    return {"url": "/v1/chat/completions", "json": body, "headers": {"Authorization": f"Bearer {key}"}}


def used(http: httpx.Client, name: str) -> dict[str, int]:
    text = http.get("/windlass/metrics", headers={"Authorization": "Bearer sk-counted-1"}).text
    assert "sk-" not in text
    row = rf'^windlass_usage_(\w+)_total\{{llmservice="",key="{name}",model="demo"\}} (\d+)$'
    return {metric: int(value) for metric, value in re.findall(row, text, re.MULTILINE)}


def test_requests_a_minute(http):
    answers = [http.post(**request("sk-few-few-1", max_tokens=1)) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert [one.headers["x-ratelimit-remaining-requests"] for one in answers] == ["1", "0", "0"]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 61
    assert "sk-" not in answers[2].text


def test_tokens_a_minute(http):
    """What vLLM counted is what is left, and over it the next request waits."""
    first = http.post(**request("sk-spender-1"))
    assert first.status_code == 200, first.text
    total = first.json()["usage"]["total_tokens"]
    answers = [http.post(**request("sk-spender-1")) for _ in range(400 // total + 1)]
    assert answers[-1].status_code == 429
    assert 0 <= int(answers[-1].headers["x-ratelimit-remaining-tokens"]) <= 400 - total
    assert int(answers[-1].headers["x-ratelimit-limit-tokens"]) == 400


@pytest.mark.parametrize("asks", [False, True])
def test_a_stream_is_counted_as_the_engine_counts(http, asks):
    """In, out and cached, whether its client asks for the usage or not."""
    whole = http.post(**request("sk-counted-1")).json()["usage"]
    before = used(http, "counted")
    options = {"stream_options": {"include_usage": True}} if asks else {}
    answer = http.post(**request("sk-counted-1", stream=True, **options))
    assert ('"usage":{' in answer.text.replace(" ", "")) is asks
    after = used(http, "counted")
    grown = {metric: after[metric] - before[metric] for metric in after}
    assert (grown["prompt_tokens"], grown["completion_tokens"]) == (whole["prompt_tokens"], whole["completion_tokens"])
    assert (grown["requests"], grown["estimated_requests"]) == (1, 0)
    assert 0 <= grown["cached_tokens"] < whole["prompt_tokens"]
    if asks:
        last = [json.loads(line[6:]) for line in answer.text.splitlines() if '"usage":{' in line.replace(" ", "")][-1]
        assert grown["cached_tokens"] == ((last["usage"]["prompt_tokens_details"] or {}).get("cached_tokens") or 0)


def test_cached_tokens_are_counted(http):
    """The second of two long prompts that begin alike."""
    long = [{"role": "user", "content": "Tell about os.path.join and os.path.split. " * 30}]
    for _ in range(2):
        answer = http.post(**request("sk-counted-1", messages=long, max_tokens=1))
        assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert used(http, "counted")["cached_tokens"] > 0


def test_who_leaves_in_a_stream_is_counted(http):
    """By the pieces that were made until then; the count says that it is estimated."""
    fields = request("sk-leaver-1", stream=True, max_tokens=800, ignore_eos=True)
    pieces = 0
    with http.stream("POST", **fields) as answer:
        for line in answer.iter_lines():
            pieces += line.startswith("data: ")
            if pieces == 5:
                break
    for _ in range(200):  # each asks the server, which ends the request when it sees that nobody listens
        if found := used(http, "leaver"):
            break
    assert (found["requests"], found["estimated_requests"]) == (1, 1)
    assert 5 <= found["completion_tokens"] < 800
    assert found["prompt_tokens"] > 0
