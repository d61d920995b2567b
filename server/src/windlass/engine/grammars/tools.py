"""Which tools' arguments a grammar binds to their schema: those of forced calls, whether or not a tool says `strict`.

A forced call has a grammar anyway, so its arguments cost little more. Calls that the model decides on keep vLLM's rule:
a grammar for them costs every request with tools. A tool that xgrammar cannot keep stays free, since vLLM would refuse
the whole request, though its client never asked for `strict`.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("windlass.grammars")

SCHEMAS_MAX = 1024
"""Verdicts of a process that are kept, by schema."""
WithStrict = Callable[[Any, bool], Any]
Resolve = Callable[[Any, Any, Any], Any]
Apply = Callable[[Any, Any], Any]
UNFORCED = (None, "auto", "none")


def forced_bound(built_in: Resolve, auto: object, parameter: object) -> Resolve:
    """The engine's `resolve_tool_strictness`; at the level `auto` a forced call is taken as at `parameter`."""

    def resolve(tools: Any, tool_choice: Any, level: Any) -> Any:  # noqa: ANN401 - as the engine calls it
        return built_in(tools, tool_choice, parameter if level == auto and _is_forced(tool_choice) else level)

    return resolve


def forced_whole(built_in: Apply, auto: object, parameter: object) -> Apply:
    """The engine's `_apply_structural_tag`; at the level `auto` a forced call is taken as at `parameter` throughout.

    Inside, the engine raises `auto` to `function` for `parallel_tool_calls: false` and for some tool parsers, and
    `function` sets arguments free.
    """

    def apply(parser: Any, request: Any) -> Any:  # noqa: ANN401 - as the engine calls it
        if parser.tool_strict_level != auto or not _is_forced(request.tool_choice):
            return built_in(parser, request)
        parser.tool_strict_level = parameter
        try:
            return built_in(parser, request)
        finally:
            parser.tool_strict_level = auto

    return apply


def _is_forced(tool_choice: Any) -> bool:  # noqa: ANN401 - of Chat Completions, or of the Responses API
    return tool_choice not in UNFORCED and getattr(tool_choice, "mode", None) != "auto"


def where_kept(built_in: WithStrict, is_kept: Callable[[str], bool]) -> WithStrict:
    """The engine's `_with_tool_strict`; a tool that does not say `strict` is bound only where its schema is kept."""

    def with_tool_strict(tool: Any, strict: bool) -> Any:  # noqa: ANN401 - as the engine calls it
        function = getattr(tool, "function", tool)  # of Chat Completions, or of the Responses API
        declared = getattr(function, "strict", None)
        if declared is None and strict:
            strict = is_kept(json.dumps(getattr(function, "parameters", None)))
        return built_in(tool, strict and declared is not False)

    return with_tool_strict


@functools.lru_cache(SCHEMAS_MAX)
def is_kept(schema: str) -> bool:
    """Whether xgrammar makes a grammar of a schema; said in the log where it does not."""
    import xgrammar

    if schema == "null":
        return True
    try:
        xgrammar.Grammar.from_json_schema(schema)
    except Exception as error:
        reason = str(error).strip().splitlines()[0].rpartition(": ")[2]
        logger.info("a tool's arguments are not bound to its schema, which xgrammar cannot keep: %s", reason)
        return False
    return True
