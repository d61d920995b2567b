"""Counts are read where the engine puts them, whatever else of that name an answer repeats."""

import json

import pytest
from windlass.front.usage.read import PARSED_BYTES, Count, Tokens, is_done, of_answer, of_events
from windlass_testbed.cases import every_case

USAGE = {"input_tokens": 40, "output_tokens": 60, "total_tokens": 100}
FAKE = {"properties": {"usage": {"input_tokens": 1, "output_tokens": 1}, "k": {"enum": ["response.completed"]}}}
TOOLS = [{"type": "function", "name": "f", "parameters": FAKE}]


def event(**fields: object) -> bytes:
    """One event of a stream, as vLLM writes it."""
    data = json.dumps(fields, separators=(",", ":")).encode()
    return b"event: %s\ndata: %s\n\n" % (str(fields.get("type", "")).encode(), data)


def body(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@every_case(
    "data, expected",
    [
        (event(type="response.created", response={"tools": TOOLS, "usage": None}), None),
        (
            event(response={"tools": TOOLS, "usage": USAGE}, type="response.completed"),
            Count(Tokens(40, 60), is_last=True),
        ),
        (event(response={"tools": TOOLS, "usage": USAGE}, type="response.failed"), Count(Tokens(40, 60), is_last=True)),
        (
            event(type="message_start", message={"usage": {"input_tokens": 20, "output_tokens": 0}}),
            Count(Tokens(20), is_last=False),
        ),
        (event(type="message_delta", usage=USAGE), Count(Tokens(40, 60), is_last=True)),
        (
            event(type="message-end", delta={"usage": {"tokens": {"input_tokens": 3, "output_tokens": 2}}}),
            Count(Tokens(3, 2), is_last=True),
        ),
        (event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2}), Count(Tokens(3, 2), is_last=True)),
        (event(choices=[{}], usage={"prompt_tokens": 3, "completion_tokens": 1}), Count(Tokens(3, 1), is_last=False)),
        (event(choices=[{"x": []}], tools=[{"choices": []}], usage=USAGE), Count(Tokens(40, 60), is_last=False)),
        (event(choices=[{}], usage=USAGE) + event(choices=[], usage=USAGE), Count(Tokens(40, 60), is_last=True)),
        (event(type="message_delta", usage=USAGE, pad="a" * PARSED_BYTES), None),
        (b'data: {"usage":{"prompt_tokens":3}' + b"[" * 50_000 + b"\n\n", None),
        (b'data: {"usage":{"prompt_tok', None),
    ],
    ids=[
        "tools repeated", "completed", "failed", "message start", "message delta", "Cohere", "chat's last",
        "chat's count so far", "empty choices elsewhere", "two events", "too long", "deep", "cut",
    ],
)  # fmt: skip
def test_the_count_of_events(data: bytes, expected: Count | None) -> None:
    """By the place of the usage field and by the type of the event."""
    assert of_events(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (body(tools=TOOLS, usage=USAGE, user=None), Tokens(40, 60)),
        (body(usage=USAGE, output=[{"content": TOOLS}]), Tokens(40, 60)),
        (body(content=[{"type": "tool_use", "input": {"usage": {"output_tokens": 1}}}]), None),
        (body(model="m", usage={"total_tokens": 7}, results=["a" * 2 * PARSED_BYTES]), Tokens(7)),
        (body(data=["a" * 2 * PARSED_BYTES], usage={"prompt_tokens": 7}), Tokens(7)),
        (body(a="a" * PARSED_BYTES, b=[FAKE], c="a" * PARSED_BYTES), None),
        (body(tools=TOOLS, usage=None), None),
        (b"RIFF" + bytes(range(256)) + b'"usage":{"prompt_tokens":1}', None),
    ],
    ids=["after tools", "before tools", "in a tool's input", "before much", "after much", "amid much", "null", "sound"],
)
def test_the_count_of_a_whole_answer(data: bytes, expected: Tokens | None) -> None:
    """The field at the top level, wherever it stands, and no other."""
    assert of_answer(data, is_cut=False) == expected


def test_of_a_cut_answer_the_begin_proves_nothing() -> None:
    """A cut may fall at the brace of a nested object."""
    rest = b'{"usage":{"prompt_tokens":1},"b":"' + b"a" * 100 + b'"}],"c":1}'
    assert of_answer(rest, is_cut=True) is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"type": "duration", "seconds": 93}, Tokens()),
        ({"seconds": 93}, None),
        ({"prompt_tokens": 0, "total_tokens": 0, "completion_tokens": 0}, Tokens()),
        ({"input_tokens": 4, "output_tokens": 9, "cache_read_input_tokens": 1600}, Tokens(1604, 9, 1600)),
        ({"input_tokens": 0, "output_tokens": 9, "cache_creation_input_tokens": 16}, Tokens(16, 9)),
        (
            {"prompt_tokens": 1604, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1600}},
            Tokens(1604, 9, 1600),
        ),
        (
            {"input_tokens": 1604, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 1600}},
            Tokens(1604, 9, 1600),
        ),
        ({"prompt_tokens": 1604, "completion_tokens": 9, "cache_read_input_tokens": 1600}, Tokens(1604, 9, 1600)),
    ],
    ids=[
        "seconds of sound",
        "no kind",
        "zeros",
        "Anthropic read",
        "Anthropic created",
        "chat",
        "responses",
        "chat with both",
    ],
)
def test_what_a_usage_says(usage: dict[str, object], expected: Tokens | None) -> None:
    """Cached tokens count once; seconds of sound are no tokens."""
    assert of_answer(body(usage=usage), is_cut=False) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: [DONE]\n\n", True),
        (b'data: {"choices":[]}\n\ndata: [DONE]\n\n', True),
        (b'data: {"delta":"data: [DONE]"}\n\n', False),
        (b'data: {"delta":"\\ndata: [DONE]"}\n\n', False),
    ],
)
def test_the_end_of_a_stream(data: bytes, expected: bool) -> None:
    """An event of its own, and no text of the model or of a tool."""
    assert is_done(data) is expected
