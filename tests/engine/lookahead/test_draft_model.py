"""A draft model by the older engines' flags, in the image: same answer, and the drafts are accepted."""

import re

import httpx
import pytest

ASK = {
    "messages": [{"role": "user", "content": "What does os.path.join do?"}],
    "temperature": 0,
    "max_tokens": 40,
}
COMMON = ("windlass", "run", "--dtype", "float32", "--max-model-len", "512")


def answer(address):
    reply = httpx.post(f"{address}/v1/chat/completions", json=ASK, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def counter(address, name):
    found = re.search(rf"^{name}(?:_total)?{{.*}} (\S+)$", httpx.get(f"{address}/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.long
def test_draft_model_of_older_start_commands(engine):
    """The model drafts for itself here, so every draft is right: what is measured is that it drafts at all."""
    words = ("--speculative-model", "/data/model", "--num-speculative-tokens", "3", "--conservative-dry-run")
    with engine.serving(*COMMON, *words) as address:
        drafted = answer(address)
        assert counter(address, "vllm:spec_decode_num_accepted_tokens") >= 20
    assert drafted.startswith("Join one or more path segments intelligently.")
