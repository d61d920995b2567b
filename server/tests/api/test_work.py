"""Small bodies that would make the engine work for minutes."""

import json

import pytest
from windlass.api import work
from windlass.front.refusal import Refusal


def many(count: int) -> dict:
    return {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(count)}}


def schema(value: object) -> dict:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}}


TURN = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(schema(many(257)), "more than 256 properties", id="properties"),
        pytest.param(schema({"items": {"anyOf": [many(257)]}}), "more than 256 properties", id="properties within"),
        pytest.param({"structured_outputs": {"json": json.dumps(many(257))}}, "256 properties", id="schema as text"),
        pytest.param({"structured_outputs": {"json": "x" * 300_000}}, "262144 characters", id="long text"),
        pytest.param(schema({"anyOf": [many(200)] * 100}), "more than 16384 keys", id="alternatives"),
        pytest.param({"structured_outputs": {"choice": ["x"] * 2049}}, "more than 2048 items", id="choice"),
        pytest.param(schema({"enum": list(range(2049))}), "more than 2048 items", id="enum"),
        pytest.param({"structured_outputs": {"regex": "a|" * 9000}}, "16384 characters", id="regex"),
        pytest.param({"structured_outputs": {"grammar": "a|" * 9000}}, "16384 characters", id="grammar"),
        pytest.param(schema({"type": "string", "pattern": "a|" * 9000}), "16384 characters", id="pattern"),
        pytest.param({"tools": [{"function": {"parameters": many(257)}}]}, "256 properties", id="tool"),
        pytest.param({"tools": [{}] * 2049}, "tools holds more than 2048 items", id="tools"),
        pytest.param({"messages": [TURN] * 2049}, "messages holds more than 2048 items", id="messages"),
        pytest.param({"messages": [[TURN] * 2049]}, "messages holds more than 2048 items", id="batch"),
        pytest.param({"messages": [TURN, {}]}, 'an object with a "role"', id="no role"),
        pytest.param({"messages": [[TURN], ["x"]]}, 'an object with a "role"', id="no object in a batch"),
        pytest.param({"input": [{}] * 2049}, "input holds more than 2048 items", id="input"),
    ],
)
def test_too_much_work_is_refused(body: dict, words: str) -> None:
    """With the field and the limit."""
    with pytest.raises(Refusal) as caught:
        work.check(body)
    assert caught.value.status == 400
    assert words in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"messages": [TURN] * 2000}, id="2,000 messages"),
        pytest.param({"messages": [[TURN], [TURN]]}, id="a batch"),
        pytest.param({"messages": "x"}, id="what the engine refuses"),
        pytest.param({"input": list(range(200_000))}, id="200,000 token ids"),
        pytest.param({"input": ["text"] * 10_000}, id="10,000 texts"),
        pytest.param({"tools": [{"function": {"parameters": many(9)}}] * 128}, id="128 tools"),
        pytest.param(schema(many(200)), id="200 properties"),
        pytest.param({"structured_outputs": {"json": "{"}}, id="a broken schema"),
        pytest.param({"text": {"format": {"type": "text"}}}, id="plain text"),
    ],
)
def test_what_clients_send_passes(body: dict) -> None:
    work.check(body)
