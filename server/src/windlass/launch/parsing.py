"""Settles the parsers of tool calls and reasoning that nobody named: the step of `adjust` that asks `parsers`. Pure.

Table T and the user go first. A parser reads what the rendered template asks the model for, so the marks count only
while the model's own template is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from windlass_sizing.settings.setting import CHECKPOINT, Setting

from windlass.launch import parsers
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.parsers import FoundParser
from windlass.launch.templates import DIRECTORY

Settings: TypeAlias = dict[str, Setting]
AUTO, TOOLS, REASONING = "enable-auto-tool-choice", "tool-call-parser", "reasoning-parser"
TEMPLATE = "chat-template"


def step(
    settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """The parsers of the checkpoint's own marks, and what to tell where they name none."""
    if model.is_embedder:
        return {}, []
    if _is_replaced(settings, model):
        return {}, _hidden(settings, model)
    tools, notes = _tools(settings, model)
    if REASONING in settings:
        return tools, notes
    found = parsers.reasoning(model.marks)
    return tools | _taken(REASONING, found), notes + _untaken(found)


def _tools(settings: Settings, model: ModelFiles) -> tuple[Settings, list[str]]:
    """The parser of tool calls with automatic tool choice; who declines the choice gets neither."""
    auto = settings.get(AUTO)
    if auto is not None and not auto.value:
        return {}, []
    found = parsers.tools(model.marks)
    if found.template and (TOOLS in settings or model.adapters.chat_template):
        return {}, []
    changed = {} if TOOLS in settings else _taken(TOOLS, found)
    notes = [] if TOOLS in settings else _untaken(found)
    if found.parser and auto is None:
        changed[AUTO] = Setting(AUTO, True, CHECKPOINT, f"tool calls are in the form of {found.parser}")
    if found.template:
        why = f"the form of {found.parser}; no parser reads that of the model's own template"
        changed[TEMPLATE] = Setting(TEMPLATE, str(DIRECTORY / found.template), CHECKPOINT, why)
    elif changed and model.marks.template and not model.marks.shows_tools:
        notes.append("the chat template leaves the tools of a request out; describe them in the system prompt, or name "
                    "a template that has them: --chat-template")  # fmt: skip
    return changed, notes


def _taken(name: str, found: FoundParser) -> Settings:
    return {name: Setting(name, found.parser, CHECKPOINT, found.why)} if found.parser else {}


def _untaken(found: FoundParser) -> list[str]:
    return [found.why] if found.why and not found.parser else []


def _is_replaced(settings: Settings, model: ModelFiles) -> bool:
    template = settings.get(TEMPLATE)
    return template is not None and template.value != model.marks.file


def _hidden(settings: Settings, model: ModelFiles) -> list[str]:
    """The parsers that the model's own template would have had."""
    tools = parsers.tools(model.marks)
    own = {TOOLS: "" if tools.template else tools.parser, REASONING: parsers.reasoning(model.marks).parser}
    auto = settings.get(AUTO)
    lost = [f"--{name} {parser}" for name, parser in own.items() if parser and name not in settings]
    if not lost or (auto is not None and not auto.value):
        return []
    by = settings[TEMPLATE].why or f"--{TEMPLATE}"
    own_way = f"; to render the model's own template, set --{TEMPLATE} {model.marks.file}" if model.marks.file else ""
    return [f"{by} replaces the model's own template, which {' and '.join(lost)} would read{own_way}"]
