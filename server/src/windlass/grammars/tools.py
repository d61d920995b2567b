"""Tools whose arguments the engine binds to their schema by `--tool-strict-level parameter`, our default.

vLLM would refuse a request for one tool that xgrammar cannot keep, though its client never asked for `strict`. Such a
tool's arguments stay free, and so do those of a tool with `strict: false`; the others are bound.
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
