"""What the answers to the first chat mean."""

import json

import pytest
from windlass.engine.startup import first_chat
from windlass.engine.startup.chat_template import Template
from windlass.engine.startup.first_chat import Outcome, chat, completion
from windlass_testbed.cases import every_case

SOUND = Template("{{ messages[0].content }}", "chat_template.jinja")
PLAIN, BASE = chat(SOUND), chat(None, has_template=False)
TOO_LONG = "This model's maximum context length is 16 tokens. However, your prompt contains 30 input tokens."


def error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}).encode()


@every_case(
    "question, status, content, means",
    [
        (PLAIN, 200, b"{}", Outcome.PASSED),
        (PLAIN, 429, error("full"), Outcome.BUSY),
        (PLAIN, 503, error("not yet"), Outcome.BUSY),
        (PLAIN, 404, error("no route"), Outcome.NO_TEXT),
        (PLAIN, 405, error("no POST"), Outcome.NO_TEXT),
        (PLAIN, 400, error("'dict object' has no attribute 'x'"), Outcome.FAILED),
        (PLAIN, 400, error(TOO_LONG), Outcome.PASSED),
        (PLAIN, 500, error(TOO_LONG), Outcome.FAILED),
        (PLAIN, 500, b"<html>", Outcome.FAILED),
        (BASE, 400, error("no chat template"), Outcome.NO_TEMPLATE),
        (BASE, 500, error("no chat template"), Outcome.FAILED),
        (chat(SOUND, is_refused=True), 400, error("pictures only"), Outcome.PASSED),
        (chat(SOUND, is_refused=True), 500, error("pictures only"), Outcome.FAILED),
        (completion(), 200, b"{}", Outcome.PASSED),
        (completion(), 400, error("no"), Outcome.FAILED),
    ],
)
def test_what_an_answer_means(question, status: int, content: bytes, means: Outcome) -> None:
    """An error is one unless it says that there was nothing to ask."""
    assert first_chat.outcome(question, status, content) is means


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"error": "x"}', b"\xff"], ids=repr)
def test_an_error_of_any_shape_is_reported(content: bytes) -> None:
    """What is no error of OpenAI's shape is told as it stands."""
    assert first_chat.sentence(content) == content.decode(errors="replace")


def test_the_question_with_a_tool() -> None:
    """It is the plain one with one tool."""
    with_tool = chat(SOUND, with_tool=True)
    assert set(with_tool.body) - set(PLAIN.body) == {"tools"}
    assert with_tool.name == "a chat with a tool"


def test_the_line_of_a_fault_that_the_engine_found() -> None:
    """Named where rendering here fails with the engine's own words, not where it fails with others or goes well."""
    broken = chat(Template("{{ messages[0].content }}\n{{ tools[0].nothing.more }}", "t.jinja"), with_tool=True)
    found = first_chat.fault(broken, "'dict object' has no attribute 'nothing'")
    assert found is not None
    assert str(found).startswith(
        "line 2 of the chat template t.jinja cannot be rendered: UndefinedError: 'dict object'"
    )
    assert first_chat.fault(broken, "division by zero") is None
    assert first_chat.fault(PLAIN, "division by zero") is None
    assert first_chat.fault(BASE, "division by zero") is None
