"""What a server is asked before it is ready, and what its answers mean. Pure.

`launch.first_chat` chooses the questions, `supervisor.asking` asks them through the engine's own API. A question goes
the whole way of a user's: the guard, the model's chat template, the engine, its parsers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from windlass.engine.startup import chat_template
from windlass.engine.startup.chat_template import Template
from windlass.errors import ChatTemplateError

VARIABLE = "WINDLASS_FIRST_CHAT"
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
TOKENS = 8
"""Enough for a prefill, decode steps and, where the engine speculates, drafts and their verification."""
HELLO = ({"role": "user", "content": "Hello"},)
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "Its name"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": CITY}}
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""vLLM has the routes of chats and completions where its model generates text, and only there."""
TOO_LONG = "context length"
"""In vLLM's refusals of a prompt that the context does not hold: the template was rendered, so it is no fault."""


class Outcome(Enum):
    """What an answer means for the start."""

    PASSED = auto()
    BUSY = auto()
    """Ask again."""
    NO_TEXT = auto()
    """The model generates no text: an embedder, a classifier, speech to text. There is nothing to ask."""
    NO_TEMPLATE = auto()
    """The model has no chat template: a completion is asked instead."""
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Question:
    """One request of the start."""

    name: str
    path: str
    body: Mapping[str, Any]
    template: Template | None = None
    """The template that the engine renders it with, where it lies in a file."""
    has_template: bool = True
    """The model answers chats, as far as its files tell; without a template a refused chat is a completion."""
    tools: tuple[Mapping[str, Any], ...] = ()
    is_refused: bool = False
    """The template itself refuses such a conversation, as those that translate between two languages."""
    engines: int = 1
    """How many engines are behind the port, when each is asked."""


def chat(
    template: Template | None,
    *,
    with_tool: bool = False,
    has_template: bool = True,
    is_refused: bool = False,
    engines: int = 1,
) -> Question:
    """A chat of one word, without or with a tool."""
    tools = (TOOL,) if with_tool else ()
    body = {
        "messages": list(HELLO),
        "max_tokens": TOKENS,
        "temperature": 0,
        **({"tools": list(tools)} if tools else {}),
    }
    name = "a chat with a tool" if with_tool else "a chat"
    return Question(name, CHAT, body, template, has_template, tools, is_refused, engines)


def completion(engines: int = 1) -> Question:
    """What a model without a chat template is asked."""
    body = {"prompt": "Hello", "max_tokens": TOKENS, "temperature": 0}
    return Question("a completion", COMPLETION, body, engines=engines)


def outcome(question: Question, status: int, content: bytes) -> Outcome:
    """What an answer means."""
    if status < HTTPStatus.BAD_REQUEST:
        return Outcome.PASSED
    if status in BUSY:
        return Outcome.BUSY
    if status in NO_ROUTE:
        return Outcome.NO_TEXT
    if status == HTTPStatus.BAD_REQUEST:
        if question.is_refused or TOO_LONG in sentence(content):
            return Outcome.PASSED
        if not question.has_template:
            return Outcome.NO_TEMPLATE
    return Outcome.FAILED


def sentence(content: bytes) -> str:
    """The message of the engine's error."""
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:500].strip()


def fault(question: Question, said: str) -> ChatTemplateError | None:
    """The template's own fault with its line, when rendering it here fails with what the engine says."""
    if question.template is None:
        return None
    error = chat_template.fault(question.template, HELLO, question.tools)
    return error if error and said.strip().rstrip(".") in str(error) else None
