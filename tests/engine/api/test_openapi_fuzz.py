"""Requests that nobody should send: drawn from vLLM's own description of its routes, and a table of known traps.

None of them may be answered with 5xx. `make fuzz-api` draws 100 of each.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.errors import UnsupportedSchema

from . import undrawable_bodies
from .own_commands import BEARER

EXAMPLES = os.environ.get("WINDLASS_FUZZ_EXAMPLES")
SAMPLE = ("--phases", "fuzzing", "--max-examples", "5")
"""Of each route; a count, so that a slow machine draws as many as a fast one."""
WHOLE = ("--phases", "coverage,fuzzing", "--max-examples", EXAMPLES or "")
OURS = ("/", "/chat", "/windlass/facts", "/windlass/metrics")
ANOTHER_KIND = ("/v1/embeddings", "/v2/embed", "/pooling", "/classify", "/score", "/v1/rerank")
"""Routes of models that generate no text: vLLM does not describe them here, and our sentence answers."""
ANYTHING = {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}
ANSWERS = {"responses": {"default": {"description": "any"}}}
LONE = "\ud800"
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def http(short):
    """A client. Its first grammar decides with which tool the engine makes all others, of which some then fail."""
    with httpx.Client(base_url=short, headers=BEARER, timeout=120) as client:
        body = {"prompt": "hello", "max_tokens": 2, "structured_outputs": {"json": {"type": "integer"}}}
        assert client.post(COMPLETION, json=body).status_code == 200
        yield client


def test_drawn_requests(http, short, tmp_path):
    """schemathesis over every route that vLLM describes and ours; no route is left out."""
    schema = http.get("/openapi.json").json()
    schema["paths"] |= {path: {"get": ANSWERS} for path in OURS}
    schema["paths"] |= {path: {"post": ANYTHING | ANSWERS} for path in ANOTHER_KIND}
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(schema))
    operations = sum(len(methods) for methods in schema["paths"].values())
    report = drawn(file, short, WHOLE if EXAMPLES else SAMPLE)
    assert f"Tested: {operations}" in report, f"not all of {operations} routes had their turn:\n{report}"
    cases = int(re.search(r"(\d+) generated", report)[1])
    print(f"{cases} cases for {operations} routes")
    assert cases > operations
    left_out = tmp_path / undrawable_bodies.LEFT_OUT
    assert not left_out.exists() or len(left_out.read_text().splitlines()) <= cases / 100, left_out.read_text()


def drawn(schema, url, extent):
    """What schemathesis says in the end; no answer was a 5xx."""
    key = f"Authorization: {BEARER['Authorization']}"
    words = (
        "run",
        schema,
        "--url",
        url,
        "--header",
        key,
        "--checks",
        "not_a_server_error",
    )
    limits = (*extent, "--request-timeout", "60", "--continue-on-failure", "--warnings", "off")
    tool = Path(sys.executable).with_name("st")
    modules = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    hook = {"SCHEMATHESIS_HOOKS": "undrawable_bodies", "PYTHONPATH": modules}
    done = subprocess.run(
        [tool, *words, *limits],
        capture_output=True,
        text=True,
        cwd=schema.parent,
        env=os.environ | hook,
        check=False,
    )
    report = done.stdout[-8000:]
    assert done.returncode == 0, report
    return report


def test_a_body_that_cannot_be_drawn_is_left_out(tmp_path, monkeypatch):
    """The hook: every second draw meets a part from which schemathesis can draw nothing; all others come through."""
    monkeypatch.chdir(tmp_path)
    strategy = st.integers(0, 99).flatmap(lambda n: st.deferred(undrawable) if n % 2 else st.just(n))
    seen = []

    @given(undrawable_bodies.drawn(strategy))
    @settings(database=None, suppress_health_check=[HealthCheck.filter_too_much])
    def draw(n):
        seen.append(n)

    draw()
    assert len(seen) > 10
    assert not any(n % 2 for n in seen)
    assert "does not support a part" in undrawable_bodies.LEFT_OUT.read_text()


def undrawable():
    raise UnsupportedSchema.from_reason("a part")


TRAPS = [
    *((path, field, value) for path in (CHAT, COMPLETION) for field, value in [
        ("logit_bias", {"99999999": 5}), ("logit_bias", {"-1": 5}), ("stop_token_ids", [-1]),
        ("stop_token_ids", [10**30]), ("allowed_token_ids", []), ("allowed_token_ids", [-1]), ("bad_words", [""]),
        ("bad_words", [LONE]), ("seed", -(2**63) + 1), ("n", 100_000), ("truncate_prompt_tokens", -5),
        ("truncate_prompt_tokens", 10**9), ("cache_salt", ""), ("priority", 10**20), ("stop", [""]),
        ("prompt_logprobs", 2**31), ("top_k", 2**62), ("max_tokens", 10**9), ("logprobs", -1),
        ("vllm_xargs", {"no_repeat_ngram_size": [1]}), ("no_repeat_ngram_size", 2**62), ("request_id", "a" * 10_000),
        *(("structured_outputs", value) for value in ("x", 5, True, [], ["x"])),
        ("structured_outputs", {"regex": "("}), ("structured_outputs", {"grammar": "???"}),
        ("structured_outputs", {"json": "{"}), ("structured_outputs", {"choice": []}),
        ("structured_outputs", {"json": {"enum": []}}), ("structured_outputs", {"structural_tag": "{}"}),
        ("structured_outputs", {"json": {"type": "array", "minItems": 100_000}}),
        ("structured_outputs", {"json": {"type": "object", "patternProperties": {"(": {}}}}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/x"}}}),
        ("response_format", {"type": "grammar"}), ("kv_transfer_params", {"do_remote_prefill": True}),
    ]),
    *((CHAT, "messages", value) for value in [
        [], [{}], "x", [{"role": "robot", "content": "x"}], [{"role": "user", "content": [{"type": "nope"}]}],
        [{"role": "user", "content": LONE}], [{"role": "user", "content": "x" * 200_000}],
        [{"role": "assistant", "tool_calls": [{}]}], [{"role": "user", "content": [{"type": "text", "text": None}]}],
    ]),
    (CHAT, "chat_template", "{{ 1/0 }}"), (CHAT, "chat_template_kwargs", {"messages": 1}), (CHAT, "tools", [{}]),
    (CHAT, "tool_choice", {"type": "function", "function": {"name": "absent"}}), (CHAT, "documents", [{}]),
    *((COMPLETION, "prompt", value) for value in [
        "", [], [[]], [-1], [10**6], [10**20], [1, "a"], [True], {}, LONE, "x" * 100_000, [1] * 200,
    ]),
    (COMPLETION, "prompt_embeds", "AAAA"), (COMPLETION, "best_of", 0),
    ("/detokenize", "tokens", [-1]), ("/detokenize", "tokens", [2**32]), ("/tokenize", "prompt", LONE),
    *(("/v1/responses", "input", [{"type": "message", "role": "assistant", "content": parts, "id": "", "status":
                                   "completed"}]) for parts in ([], [{"type": "refusal", "refusal": "x"}], [{}], "")),
    ("/v1/responses", "input", [{"type": "function_call_output", "call_id": "a", "id": "", "status": "completed",
                                 "output": [{"type": "input_file"}]}]),
    ("/v1/responses", "previous_response_id", "nope"), ("/v1/messages", "stop_sequences", [""]),
]  # fmt: skip
BASE = {
    CHAT: {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2},
    COMPLETION: {"prompt": "hello", "max_tokens": 2},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2},
    "/v1/responses": {"input": "hello", "max_output_tokens": 2},
}


@pytest.mark.parametrize(("path", "field", "value"), TRAPS, ids=[f"{p} {f} {str(v)[:40]!a}" for p, f, v in TRAPS])
def test_a_trap(http, path, field, value):
    """Answered, or refused with a sentence; never the server's fault."""
    body = json.dumps(BASE.get(path, {}) | {field: value})
    answer = http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert error["message"]
        assert set(error) >= {"message", "type", "param", "code"}


NO_GRAMMAR = {"type": "object", "patternProperties": {"(": {}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        pytest.param("POST", "/v1/embeddings", {"model": "demo", "input": "x"}, 404, "/v1/embeddings is not here: the "
                     "model of this server gives no embeddings; ask a server whose model does", id="embeddings"),
        pytest.param("POST", "/v1/rerank", {"query": "a", "documents": ["b"]}, 404, "/v1/rerank is not here: the model "
                     "of this server gives no scores; ask a server whose model does", id="scores"),
        pytest.param("POST", CHAT, {"messages": [{"role": "user", "content": [IMAGE]}]}, 400, "this model reads text "
                     "only; leave images, audio and video out, or ask a server whose model reads them", id="image"),
        pytest.param("GET", CHAT, None, 405, f"{CHAT} does not take GET; the header Allow names what it takes",
                     id="405"),
        pytest.param("POST", "/v1/nothing", {}, 404, "there is no POST /v1/nothing here; GET /docs lists what there is",
                     id="404"),
        pytest.param("POST", "/scale_elastic_ep", {}, 403, "/scale_elastic_ep is closed: it controls the engine; the "
                     "settings of the server may open it", id="closed"),
        pytest.param("POST", CHAT, BASE[CHAT] | {"structured_outputs": {"json": NO_GRAMMAR}}, 400, "the engine gave "
                     "this request up, most likely while it made a grammar of structured_outputs; make its patterns "
                     "and lists simpler", id="grammar"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_exact_sentence(http, method, path, body, status, message):
    """The exact sentence: what, and what to do."""
    answer = http.request(method, path, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"] == message


def test_the_server_is_well_after_all_that(http):
    answer = http.post(CHAT, json=BASE[CHAT] | {"temperature": 0})
    assert answer.json()["choices"][0]["message"]["content"]
