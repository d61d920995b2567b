"""`windlass run` in its image with the demo model: what clients of the API ask for, and what they are refused."""

import json
import re

import httpx
import jsonschema
import openai
import pytest

from ..conftest import KEYS

KEY = KEYS[0]
JOIN = (
    "Join one or more path segments intelligently. The return value is the concatenation of path and all members of "
    "*paths, with exactly one directory separator following each non-empty part, except the last."
)
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
INTEGER = {"type": "integer", "minimum": 0.5, "maximum": 3}
FOUR = {"allOf": [{"type": "integer", "minimum": 4}, {"type": "integer", "maximum": 4}]}
"""Xgrammar keeps neither, guidance both."""
INTEGERS = {"type": "object", "properties": {"weight": INTEGER}, "required": ["weight"]}


@pytest.fixture(scope="module")
def address(keyed):
    return keyed


@pytest.fixture(scope="module")
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, timeout=120, max_retries=0) as found:
        yield found


@pytest.fixture(scope="module")
def http(address):
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {KEY}"}, timeout=120) as found:
        yield found


def chat(http, **fields):
    return http.post("/v1/chat/completions", json={"messages": QUESTION, "temperature": 0, "max_tokens": 80, **fields})


class TestAnswers:
    def test_chat(self, client):
        answer = client.chat.completions.create(model="demo", messages=QUESTION, temperature=0, max_tokens=80)
        assert answer.choices[0].message.content == JOIN
        assert answer.choices[0].finish_reason == "stop"

    def test_a_stream_says_the_same_and_counts(self, client):
        more = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(
            client.chat.completions.create(model="demo", messages=QUESTION, temperature=0, max_tokens=80, **more)
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(pieces) == JOIN
        assert len([piece for piece in pieces if piece]) > 10
        assert chunks[-1].usage.completion_tokens > 10

    def test_several_messages_under_a_system_prompt(self, client):
        turns = [
            {"role": "system", "content": "Answer briefly."},
            *QUESTION,
            {"role": "assistant", "content": JOIN},
            {"role": "user", "content": "And math.sqrt?"},
        ]
        answer = client.chat.completions.create(model="demo", messages=turns, temperature=0, max_tokens=40)
        assert answer.choices[0].message.content == "Return the square root of x."

    def test_completions_with_n_and_logprobs(self, client):
        fields = {"max_tokens": 6, "temperature": 1.0, "seed": 7, "n": 3, "logprobs": 2}
        found = client.completions.create(model="demo", prompt="def add(a, b):", **fields)
        again = client.completions.create(model="demo", prompt="def add(a, b):", **fields)
        assert [choice.text for choice in found.choices] == [choice.text for choice in again.choices]
        assert len(found.choices) == 3
        assert all(len(choice.logprobs.token_logprobs) == len(choice.logprobs.tokens) for choice in found.choices)

    def test_stop_words_and_stop_ids(self, http):
        by_word = chat(http, stop=[" intelligently"]).json()["choices"][0]
        assert (by_word["message"]["content"], by_word["finish_reason"]) == ("Join one or more path segments", "stop")
        ids = chat(http, return_token_ids=True).json()["choices"][0]["token_ids"]
        by_id = chat(http, stop_token_ids=[ids[4]], return_token_ids=True).json()["choices"][0]["token_ids"]
        assert by_id == ids[:5]

    def test_beam_search(self, http):
        body = {"prompt": "import os\n", "max_tokens": 5, "use_beam_search": True, "n": 2, "temperature": 0}
        found = http.post("/v1/completions", json=body)
        assert found.status_code == 200, found.text
        assert len({choice["text"] for choice in found.json()["choices"]}) == 2

    def test_a_tool_is_called(self, client):
        asked = [{"role": "user", "content": "What is the weather in Paris in celsius?"}]
        fields = {"messages": asked, "tools": [WEATHER], "temperature": 0, "max_tokens": 80}
        (call,) = client.chat.completions.create(model="demo", **fields).choices[0].message.tool_calls
        assert call.function.name == "get_weather"
        assert json.loads(call.function.arguments) == {"city": "Paris", "unit": "celsius"}

    def test_json_of_a_schema(self, client):
        shape = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
        asked = [{"role": "user", "content": "Write a JSON object with name Anna and age 30."}]
        answer = client.chat.completions.create(
            model="demo", messages=asked, temperature=0, max_tokens=60, response_format=shape
        )
        assert json.loads(answer.choices[0].message.content) == {"name": "Anna", "age": 30}

    def test_schemas_and_forced_tool_calls_do_not_depend_on_their_order(self, http):
        """Requests of two grammar engines in turn; `../grammars` has every order behind a fresh start."""
        function = {"name": "find", "parameters": PERSON}
        tool = {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
        for schema in (INTEGER, FOUR, INTEGER):
            shape = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}
            answer = chat(http, response_format=shape)
            assert answer.status_code == 200, answer.text
            jsonschema.validate(json.loads(answer.json()["choices"][0]["message"]["content"]), schema)
            answer = chat(http, **tool, max_tokens=200)
            assert answer.status_code == 200, answer.text
            (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
            jsonschema.validate(json.loads(call["function"]["arguments"]), PERSON)

    @pytest.mark.parametrize(
        ("function", "status"),
        [({"parameters": INTEGERS}, 200), ({"parameters": INTEGERS, "strict": True}, 400), ({}, 200)],
        ids=["left out", "strict", "no parameters"],
    )
    @pytest.mark.parametrize("choice", ["auto", "required"])
    def test_a_tool_that_xgrammar_cannot_keep_is_refused_only_where_it_is_strict(self, http, function, status, choice):
        """Beside a tool that is kept."""
        functions = ({"name": "weigh", **function}, {"name": "find", "parameters": PERSON})
        tools = [{"type": "function", "function": one} for one in functions]
        answer = chat(http, tools=tools, tool_choice=choice, max_tokens=200)
        assert answer.status_code == status, answer.text

    def test_forced_calls_keep_the_schema_of_the_function(self, http):
        """By name and as required, six seeds each, without `strict`; a call that ends too late is none."""
        tool = {"type": "function", "function": {"name": "find", "parameters": PERSON}}
        calls = []
        for choice in ("required", {"type": "function", "function": {"name": "find"}}):
            for seed in range(6):
                answer = chat(http, tools=[tool], tool_choice=choice, max_tokens=200, temperature=1, seed=seed)
                calls += answer.json()["choices"][0]["message"].get("tool_calls") or []
        assert len(calls) >= 6
        for call in calls:
            jsonschema.validate(json.loads(call["function"]["arguments"]), PERSON)

    def test_an_adapter_is_served_by_its_name(self, client):
        fields = {"prompt": "What does os.path.join do?", "max_tokens": 16, "temperature": 0}
        plain = client.completions.create(model="demo", **fields).choices[0].text
        adapted = client.completions.create(model="adapter", **fields).choices[0].text
        assert {"demo", "adapter"} <= {model.id for model in client.models.list()}
        assert plain != adapted

    def test_what_dify_sends(self, http):
        """Dify names the model, always streams, and sends fields that it does not use."""
        body = {"model": "demo", "messages": QUESTION, "stream": True, "temperature": 0.1, "top_p": 1, "user": "u-1"}
        more = {"max_tokens": 64, "presence_penalty": 0, "frequency_penalty": 0, "stop": []}
        with http.stream("POST", "/v1/chat/completions", json=body | more) as answer:
            lines = [line for line in answer.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        assert all(line.startswith("data: ") for line in lines)


class TestSafety:
    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {KEY}"}])
    def test_a_wrong_key_is_401(self, address, headers):
        answer = httpx.post(f"{address}/v1/chat/completions", json={"messages": QUESTION}, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"]
        assert "WWW-Authenticate" in answer.headers

    @pytest.mark.parametrize("path", ["/", "/health", "/ping", "/metrics", "/chat"])
    def test_open_pages(self, address, path):
        assert httpx.get(f"{address}{path}").status_code == 200

    def test_the_docs_load_nothing_from_elsewhere(self, http):
        """The page names its own files, and they are there."""
        page = http.get("/docs")
        assert page.status_code == 200
        files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        own = [file for file in files if not file.startswith("https://fastapi.tiangolo.com/img/")]
        assert own == ["/static/swagger-ui.css", "/static/swagger-ui-bundle.js"]
        assert [http.get(file).status_code for file in own] == [200, 200]

    def test_a_body_that_is_not_called_json_is_415(self, http):
        """As `curl -d` sends it."""
        answer = http.post("/v1/chat/completions", content=b"{}", headers={"Content-Type": "text/plain"})
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            415,
            "the body's type is not JSON; send the header Content-Type: application/json",
        )

    def test_a_response_that_is_not_kept_says_how_to_keep_it(self, http):
        """Asked for, and as the one before the next."""
        next_one = {"model": "demo", "input": "x", "previous_response_id": "resp_1"}
        for answer in (http.get("/v1/responses/resp_1"), http.post("/v1/responses", json=next_one)):
            assert answer.status_code == 404, answer.text
            assert "VLLM_ENABLE_RESPONSES_API_STORE=1" in answer.json()["error"]["message"]

    @pytest.mark.parametrize("path", ["/v1/models", "/openapi.json", "/version", "/windlass/facts", "/tokenize"])
    def test_everything_else_asks_for_a_key(self, address, path):
        assert httpx.get(f"{address}{path}").status_code == 401

    def test_the_model_may_be_left_out_and_slashes_doubled(self, http, address):
        body = {"messages": QUESTION, "temperature": 0, "max_tokens": 80}
        answer = http.post(f"{address}//v1//chat/completions", json=body)
        assert answer.json()["choices"][0]["message"]["content"] == JOIN

    def test_an_unknown_model_is_404_with_the_names(self, http):
        answer = chat(http, model="gpt-4")
        assert answer.status_code == 404
        assert "demo" in answer.json()["error"]["message"]
        assert "adapter" in answer.json()["error"]["message"]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("temperature", 2.5),
            ("top_p", 0),
            ("presence_penalty", 3),
            ("frequency_penalty", -3),
            ("repetition_penalty", 0.5),
        ],
    )
    def test_out_of_range_is_400_and_names_the_field(self, http, field, value):
        answer = chat(http, **{field: value})
        assert answer.status_code == 400
        assert field in answer.json()["error"]["message"]

    def test_an_address_of_the_cluster_is_not_fetched(self, http):
        image = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/meta-data"}}
        answer = chat(http, messages=[{"role": "user", "content": [image]}])
        assert answer.status_code == 400
        assert "169.254.169.254" in answer.json()["error"]["message"]

    def test_embeddings_are_refused_clearly(self, http):
        answer = http.post("/v1/embeddings", json={"model": "demo", "input": "x"})
        assert answer.status_code in (400, 404, 501)
        assert answer.json()["error"]["message"]

    def test_a_request_id_comes_back(self, http):
        assert http.get("/v1/models", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
        assert re.fullmatch(r"\S{8,}", http.get("/v1/models").headers["x-request-id"])
