"""Chooses what the server asks itself before it is ready. Pure, but for the template that the plan names."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.engine.startup import chat_template
from windlass.engine.startup.chat_template import Template
from windlass.engine.startup.first_chat import HELLO, TOOL, Question, chat
from windlass.launch.chat_templates import AUTO, templates
from windlass.launch.model import LaunchPlan, ModelFiles

WORKERS = "worker-num"
NO_TEXT = ("--skip-tokenizer-init", "--tokens-only")
"""vLLM's flags by which its API takes and gives tokens, not text."""
SHARES = ("kv_producer", "kv_consumer", "ec_producer")
"""Roles of --kv-transfer-config and --ec-transfer-config: such an engine does a part of each answer only."""


def questions(plan: LaunchPlan, model: ModelFiles) -> tuple[Question, ...]:
    """A chat for each engine and, where tool calls are on, one with a tool; nothing where the API takes no text."""
    if any(word in NO_TEXT or any(share in word for share in SHARES) for word in plan.engine_args):
        return ()
    found = templates(plan, model)
    plain, with_tools = found or (None, None)
    is_known = bool(found) or model.marks.is_mistral_format
    asked = [_chat(plain, is_known, engines=int(str(plan.value(WORKERS) or 1)))]
    if plan.value(AUTO):
        asked.append(_chat(with_tools, is_known, TOOL))
    return tuple(asked)


def _chat(template: Template | None, is_known: bool, *tools: Mapping[str, object], engines: int = 1) -> Question:
    refused = template is not None and chat_template.refuses(template, HELLO, tools)
    return chat(template, with_tool=bool(tools), has_template=is_known, is_refused=refused, engines=engines)
