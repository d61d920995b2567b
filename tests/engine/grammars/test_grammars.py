"""A request's grammar is its own, whoever asked before; a server's answers in turn are in `api/test_server.py`.

In the CPU image; and on a card with `make test-gpu-grammars`, before servers of it too.
"""

import json
from itertools import permutations

import httpx
import jsonschema
import pytest

from ..lookahead.side_by_side import Servers, Start

GUIDANCE = ("fractional bound", "all of", "draft 4", "multiple")
TOO_WIDE = "ValueError: guidance cannot be used: the tokenizer has more tokens than the model"
"""Of a model whose tokenizer has more tokens than its vocabulary: the masks of guidance do not fit there."""
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMAS = {
    "call": PERSON,
    "bound": {"type": "integer", "minimum": 0.5, "maximum": 3},
    "all-of": {"allOf": [{"type": "integer", "minimum": 4}, {"type": "integer", "maximum": 4}]},
}
"""Xgrammar keeps the first, guidance the others."""
ORDERS = [",".join(order) for order in permutations(SCHEMAS)]
RUN = "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo".split()


def test_every_order_has_the_same_outcomes(engine):
    """Each kind first; a right text is taken, a wrong one is not, and what no engine keeps is refused in a sentence."""
    found = engine.result("/repo/tests/engine/grammars/grammars_exactly.py", "/repo/models/demo")
    first, *others = found["orders"].values()
    assert len(others) == 5
    assert others == [first] * 5
    unique = first.pop("unique items")
    assert 'Unimplemented keys: ["uniqueItems"]' in unique
    assert len(first) == 9
    expected = {name: "guidance" if name in GUIDANCE else "xgrammar" for name in first}
    assert first == {name: [backend, True, False, True] for name, backend in expected.items()}
    short = found["short vocabulary"]
    assert short["fractional bound"] == TOO_WIDE
    assert short["regex"] == ["xgrammar", True, False, True]


@pytest.fixture(scope="module")
def servers(engine):
    """A fresh start for each order; on a card all at once."""
    with Servers(engine, {order: Start(tuple(RUN), {}) for order in ORDERS}) as found:
        for order in ORDERS if engine.is_many_at_once else ():
            found.begin(order)
        yield found


@pytest.mark.on_card
@pytest.mark.parametrize("order", ORDERS)
def test_a_server_keeps_every_schema_in_every_order(servers, order):
    """A forced call and two schemas, each the first request of two servers, and all of them a second time."""
    for name in order.split(",") * 2:
        answer = ask(servers.address(order), name)
        assert answer.status_code == 200, f"{name}: {answer.text}"
        message = answer.json()["choices"][0]["message"]
        text = message["tool_calls"][0]["function"]["arguments"] if name == "call" else message["content"]
        jsonschema.validate(json.loads(text), SCHEMAS[name])


def ask(address, name):
    schema = SCHEMAS[name]
    tool = {"type": "function", "function": {"name": "find", "parameters": schema}}
    shape = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}
    fields = {"tools": [tool], "tool_choice": "required"} if name == "call" else {"response_format": shape}
    question = [{"role": "user", "content": "What does os.path.join do?"}]
    body = {"model": "demo", "messages": question, "temperature": 0, "max_tokens": 200, **fields}
    return httpx.post(f"{address}/v1/chat/completions", json=body, timeout=120)
