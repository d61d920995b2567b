"""Questions to servers with lookahead and without, and the cache file that they keep. Called by `test_lookahead`."""

import contextlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile, zip_longest

import httpx
from windlass.engine.lookahead.store import tokenizer_of
from windlass_lookahead import CacheFileError, LookaheadCache, Options
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.waiting import wait_until

ENTRIES, CONTEXT, DRAFT_TOKENS = 200_000, 7, 8
QUESTIONS = (
    "What does os.path.join do?",
    "And math.sqrt?",
    "Write a JSON object with name Anna and age 30.",
    "What is the weather in Paris in celsius?",
)
GREEDY = {"temperature": 0, "max_tokens": 60, "return_token_ids": True}
BEGINNINGS = ("def add(a, b):", "import os\n", "What does os.path.join do?", "for i in range(")
DRAWN_TOKENS, DRAWS, DRAWS_AT_ONCE, LEAST_P = 4, 2000, 50, 1e-3
"""Of each beginning. The first token comes with the prompt and was never a draft; the three behind it are compared."""


def asked(question):
    return {"messages": [{"role": "user", "content": question}]}


def post(url, fields, path="/v1/chat/completions"):
    return httpx.post(f"{url}{path}", json={"model": "demo", **GREEDY, **fields}, timeout=120)


def choices(url, fields, path="/v1/chat/completions"):
    answer = post(url, fields, path)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def token_ids(url, fields, path="/v1/chat/completions"):
    return choices(url, fields, path)[0]["token_ids"]


def lead(wanted, found):
    """How far the best token is before the second where two texts part; 0 where they do not."""
    pairs = enumerate(zip_longest(wanted["token_ids"], found["token_ids"]))
    place = next((at for at, (one, other) in pairs if one != other), None)
    if place is None:
        return 0
    best, second, *_ = sorted(wanted["logprobs"]["top_logprobs"][place].values(), reverse=True)
    return best - second


def current(url):
    """The page of metrics, when the lookahead cache has counted all of every request that has ended; else nothing."""
    text = httpx.get(f"{url}/metrics", timeout=60).text
    ended = sum(float(value) for value in re.findall(r"^vllm:request_success_total{.*} (\S+)$", text, re.M))
    counted = re.search(r'^windlass_lookahead_requests_ended_total{engine="0"} (\S+)$', text, re.M)
    return text if counted and float(counted[1]) >= ended else ""


def counts(url):
    """The lookahead metrics by name, when they tell of every request that has ended: they are renewed each second."""
    text = wait_until(lambda: current(url), "the counts of the last request", look_s=0.2)
    return {
        name: float(value) for name, value in re.findall(r'^windlass_lookahead_(\w+){engine="0"} (\S+)$', text, re.M)
    }


def draws(url, first_seed, beginning):
    """Tokens drawn after a beginning, many times; other seeds in each server: equal ones would make samples alike."""

    def some(number):
        seed = 1 + (2 * number + first_seed) * DRAWS_AT_ONCE
        fields = {"prompt": beginning, "temperature": 0.7, "n": DRAWS_AT_ONCE, "seed": seed, "ignore_eos": True}
        return choices(url, fields | {"max_tokens": DRAWN_TOKENS}, "/v1/completions")

    with ThreadPoolExecutor(4) as pool:
        found = pool.map(some, range(DRAWS // DRAWS_AT_ONCE))
        return [tuple(one["token_ids"]) for answer in found for one in answer]


def vocabulary():
    return json.loads((REPOSITORY / "models/demo/config.json").read_text())["vocab_size"]


def tokenizer():
    return tokenizer_of(REPOSITORY / "models/demo")


def cache_file():
    return f"{tokenizer()[:16]}-{ENTRIES}-{CONTEXT}-0.cache"


def empty_cache():
    return LookaheadCache(Options(cache_size=ENTRIES, turbo_match_length=CONTEXT, voc_size=vocabulary()))


def drafted_tokens(file, answer):
    """How many tokens of an answer a server that has read the file would draft rightly, behind the first few."""
    cache = empty_cache()
    with contextlib.suppress(CacheFileError):
        cache.load(file, tokenizer())
    cache.begin("", answer[:CONTEXT])
    place, right = CONTEXT, 0
    while place < len(answer):
        draft = cache.propose([""], [DRAFT_TOKENS])[0].tokens
        pairs = zip(draft, answer[place:], strict=False)
        accepted = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        cache.accept([""], [answer[place : place + accepted + 1]])
        place, right = place + accepted + 1, right + accepted
    return right
