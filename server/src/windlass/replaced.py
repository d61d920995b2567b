"""Functions of other packages that we replace in a running process, each with its reason: no file of theirs changes.

A replacement is the last resort, where a package has no hook for what must change. `server/tests/test_replaced.py`
finds all of them in our sources, and prints `docs/reference/replaced-functions.md` from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """Name of another package that ours replaces."""

    name: str
    """The whole name in the other package."""
    module: str
    """Our module that replaces it."""
    reason: str
    ends: str
    """The hook or mend that makes it unneeded."""


RULES = "vLLM's own rules of sampling at drafted places, which its V2 runner has"
TOOLS = "vLLM binds forced calls to their schema by itself"
REPLACED = (
    Replacement(
        "starlette.responses.StreamingResponse.__call__", "windlass.api.shortcut",
        "chunks of a stream skip middleware that reads headers alone "
        "([ADR 106](../adr/README.md#decisions-that-left))",
        "middleware of vLLM that costs a chunk nothing",
    ),
    Replacement(
        "vllm.connections.global_http_connection._async_client", "windlass.api.fetching",
        "media is fetched from allowed addresses alone; vLLM checks names, and a name may resolve to any address",
        "a socket factory or an address check in vLLM's client",
    ),
    Replacement(
        "vllm.v1.structured_output.StructuredOutputManager.grammar_init", "windlass.engine.grammars.plugin",
        "each request gets the grammar engine that its own check chose, not that of the first request",
        "vLLM builds a grammar engine for each request that needs another",
    ),
    Replacement(
        "vllm.tool_parsers.structural_tag_registry._with_tool_strict", "windlass.engine.grammars.plugin",
        "a tool that xgrammar cannot keep stays free, where vLLM refuses the whole request",
        "vLLM leaves such tools free",
    ),
    Replacement(
        "vllm.tool_parsers.structural_tag_registry.resolve_tool_strictness", "windlass.engine.grammars.plugin",
        "arguments of a forced call are bound to their schema", TOOLS,
    ),
    Replacement(
        "vllm.parser.abstract_parser.resolve_tool_strictness", "windlass.engine.grammars.plugin",
        "the same function, by the name that this module binds", TOOLS,
    ),
    Replacement(
        "vllm.parser.abstract_parser.DelegatingParser._apply_structural_tag", "windlass.engine.grammars.plugin",
        "the same for `parallel_tool_calls: false` and some tool parsers", TOOLS,
    ),
    Replacement(
        "vllm.sampling_params.SamplingParams._validate_spec_decode", "windlass.engine.sampling.plugin",
        "`min_p` and `logit_bias` are accepted beside speculation "
        "([ADR 87](../adr/README.md#decisions-that-left))", RULES,
    ),
    Replacement(
        "vllm.v1.sample.logits_processor.build_logitsprocs", "windlass.engine.sampling.plugin",
        "the V1 runner gets our rules while it speculates", RULES,
    ),
    Replacement(
        "vllm.v1.worker.gpu_model_runner.build_logitsprocs", "windlass.engine.sampling.plugin",
        "the same function, by the name that the V1 runner binds", RULES,
    ),
    Replacement(
        "vllm.v1.sample.rejection_sampler.RejectionSampler.forward", "windlass.engine.sampling.draft_rules",
        "the V1 runner's sampler applies these rules to each draft", RULES,
    ),
    Replacement(
        "vllm.v1.sample.rejection_sampler.RejectionSampler.apply_logits_processors",
        "windlass.engine.sampling.draft_rules",
        "the same", RULES,
    ),
    Replacement(
        "vllm.v1.sample.rejection_sampler.expand_batch_to_tokens", "windlass.engine.sampling.spread",
        "on CPUs vLLM drops the values that it spreads over drafts",
        "[vllm-project/vllm#55005](https://github.com/vllm-project/vllm/issues/55005)",
    ),
    Replacement(
        "prometheus_client.multiprocess.MultiProcessCollector", "windlass.engine.lookahead.plugin",
        "the cache's counts are on the page of metrics with several API processes too",
        "a list of collectors that vLLM adds to its registry",
    ),
    Replacement(
        "vllm.benchmarks.datasets.datasets.pd", "windlass.bench.serving.line_reader",
        "`windlass bench` reads JSON lines in an image without pandas; no server has it",
        "vLLM's client reads JSON lines without pandas",
    ),
)  # fmt: skip
"""In the order of a request's way, the benchmark's last."""
