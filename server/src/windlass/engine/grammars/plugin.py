"""vLLM's entry point `vllm.general_plugins`: each request gets the grammar engine that its own check chose.

vLLM 0.32 chooses a grammar engine for every request (xgrammar; guidance or outlines where xgrammar cannot keep the
schema), but builds only the one of the first request and gives it all later ones. With this plug-in the answer to a
request does not depend on the requests before it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from windlass.engine.grammars.tools import forced_bound, forced_whole, is_kept, where_kept

if TYPE_CHECKING:
    from vllm.v1.request import Request
    from vllm.v1.structured_output import StructuredOutputManager
    from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar

GrammarInit = Callable[["StructuredOutputManager", "Request"], None]
MASK_BITS = 32
"""Tokens in a word of the mask that a grammar engine fills."""


@functools.cache
def register() -> None:
    """Replace the manager's `grammar_init` and what makes a tool strict, once a process."""
    from vllm.parser import abstract_parser
    from vllm.tool_parsers import structural_tag_registry
    from vllm.tool_parsers.structural_tag_registry import _with_tool_strict, resolve_tool_strictness
    from vllm.tool_parsers.tool_strict_level import ToolStrictLevel
    from vllm.v1.structured_output import StructuredOutputManager

    StructuredOutputManager.grammar_init = by_request(StructuredOutputManager.grammar_init)
    structural_tag_registry._with_tool_strict = where_kept(_with_tool_strict, is_kept)
    resolve = forced_bound(resolve_tool_strictness, ToolStrictLevel.AUTO, ToolStrictLevel.PARAMETER)
    for module in (structural_tag_registry, abstract_parser):
        module.resolve_tool_strictness = resolve
    parser = abstract_parser.DelegatingParser
    parser._apply_structural_tag = forced_whole(
        parser._apply_structural_tag, ToolStrictLevel.AUTO, ToolStrictLevel.PARAMETER
    )


def by_request(built_in: GrammarInit) -> GrammarInit:
    """The engine's `grammar_init`, made to compile by the request's grammar engine and to keep one of each name."""

    def grammar_init(manager: StructuredOutputManager, request: Request) -> None:
        constraint = request.sampling_params.structured_outputs if request.sampling_params else None
        if request.structured_output_request is None or constraint is None:
            return
        built: dict[str | None, StructuredOutputBackend] = manager.__dict__.setdefault("_windlass_built", {})
        # The grammar is compiled in a thread, which reads the manager's backend: the request has a manager of its own.
        own = copy.copy(manager)
        own.backend = built.get(constraint._backend)
        built_in(own, request)
        if own.backend is None:
            return
        built[constraint._backend] = own.backend
        if _fills_the_mask(own):
            manager.backend = manager.backend or own.backend
        else:
            request.structured_output_request.grammar = _refused(constraint._backend)

    return grammar_init


def _fills_the_mask(manager: StructuredOutputManager) -> bool:
    """Whether the backend's masks are as wide as the vocabulary: all requests of a step share one mask.

    Guidance's are wider where the tokenizer has more tokens than the model.
    """
    if manager.backend is None:
        return False
    words = -(-manager.vllm_config.model_config.get_vocab_size() // MASK_BITS)
    return bool(manager.backend.allocate_token_bitmask(1).shape[1] == words)


def _refused(name: str | None) -> Future[StructuredOutputGrammar]:
    grammar: Future[StructuredOutputGrammar] = Future()
    grammar.set_exception(ValueError(f"{name} cannot be used: the tokenizer has more tokens than the model"))
    return grammar
