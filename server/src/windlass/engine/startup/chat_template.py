"""Compiles and renders a chat template as the engine does, so that a broken one is named by its file and line.

`launch.chat_templates` does so before the engine takes any memory. The environment is as
that of transformers, whose import would bring torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, TypeAlias

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from windlass.errors import ChatTemplateError

Message = Mapping[str, Any]
FAULTS = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What the expressions of a template raise."""
COMPILED = "<template>"
"""The file name of a template's lines in a traceback, as jinja2 gives it."""


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template, and where it lies."""

    text: str
    source: str
    tokens: tuple[tuple[str, str], ...] = ()
    """Special tokens by the names that templates use, as `bos_token`."""


class Refused(jinja2.TemplateError):
    """The template itself refuses a conversation, by `raise_exception`: that is no fault of the template."""


Rendering: TypeAlias = ChatTemplateError | Refused | None
"""How one rendering ended; nothing when it went well."""


class _Generation(Extension):
    """The block `{% generation %}`, which marks answers for training and writes what it holds."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The statements of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def compiled(template: Template) -> jinja2.Template:
    """The template ready to render; ChatTemplateError for a mistake in its text."""
    try:
        return _environment().from_string(template.text)
    except jinja2.TemplateSyntaxError as error:
        raise _broken(template, error.lineno, error.message or type(error).__name__) from error
    except RecursionError as error:
        raise _broken(template, None, "it is nested too deeply") from error


def fault(template: Template, messages: Sequence[Message], tools: Sequence[Message]) -> ChatTemplateError | None:
    """Why the template cannot render the conversation; None when it can, or refuses it by itself."""
    found = _renderings(template, messages, tools)
    faults = [one for one in found if isinstance(one, ChatTemplateError)]
    return faults[0] if len(faults) == len(found) else None


def refuses(template: Template, messages: Sequence[Message], tools: Sequence[Message]) -> bool:
    """Whether the template refuses the conversation by itself, in whatever form the content comes."""
    found = _renderings(template, messages, tools)
    return all(found) and any(isinstance(one, Refused) for one in found)


def _renderings(template: Template, messages: Sequence[Message], tools: Sequence[Message]) -> list[Rendering]:
    shapes = (messages, [_in_parts(message) for message in messages])
    # In a thread of its own: jinja2's frames of an error refer to it and to their callers, whose model and license
    # would live until the next collection.
    with ThreadPoolExecutor(1) as apart:
        return [apart.submit(_rendering, template, shape, tools).result() for shape in shapes]


def _rendering(template: Template, messages: Sequence[Message], tools: Sequence[Message]) -> Rendering:
    known = {**dict(template.tokens), "tools": list(tools) or None, "documents": None, "add_generation_prompt": True}
    try:
        compiled(template).render(messages=list(messages), **known)
    except ChatTemplateError as error:
        return error
    except Refused as refused:
        return Refused(str(refused))
    except FAULTS as error:
        return _broken(template, _line(error.__traceback__), f"{type(error).__name__}: {error}")
    return None


def _in_parts(message: Message) -> Message:
    """The form of templates that walk over the parts of a content."""
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _broken(template: Template, line: int | None, mistake: str) -> ChatTemplateError:
    where = f"line {line} of the chat template {template.source}" if line else f"the chat template {template.source}"
    return ChatTemplateError(
        f"{where} cannot be rendered: {mistake.rstrip('.')}; correct it, or name another with --chat-template"
    )


def _line(trace: TracebackType | None) -> int | None:
    """The template's last line in a traceback."""
    return next(reversed([line for name, line in _lines(trace) if name == COMPILED]), None)


def _lines(trace: TracebackType | None) -> Iterator[tuple[str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.filters["tojson"] = _to_json
    made.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return made


def _refuse(message: str) -> None:
    raise Refused(message)


def _to_json(value: object, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:  # noqa: ANN401
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)
