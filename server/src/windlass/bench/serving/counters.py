"""Counters of the engine: /metrics before and after a run, and the difference. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? +(\S+)(?: +\S+)?")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "external_queries": "vllm:external_prefix_cache_queries_total",
    "external_hits": "vllm:external_prefix_cache_hits_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}
"""Our names and vLLM's metrics; hits and queries count tokens."""
CACHE_CONFIG = "vllm:cache_config_info"
LOOKAHEAD = "windlass_lookahead_num_iters_total"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of /metrics: sums over the engines of the pod; a counter that is absent is None."""

    counts: Mapping[str, float | None]
    prefix_cache: bool | None = None
    offload: bool | None = None
    lookahead: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """The increase of each counter in a run; None where the engine has no such counter."""

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    external_queries: float | None = None
    external_hits: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    prefix_cache: bool | None = None
    offload: bool | None = None
    lookahead: bool = False

    @property
    def hit_rate(self) -> float | None:
        """Share of the prompts' tokens that the prefix cache had."""
        return _share(self.prefix_hits, self.prefix_queries)

    @property
    def offload_hit_rate(self) -> float | None:
        """Share of the tokens that the offloaded cache had, of those that it was asked for."""
        return _share(self.external_hits, self.external_queries)

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that were accepted."""
        return _share(self.accepted_tokens, self.draft_tokens)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens a verified draft gave, the model's own among them."""
        share = _share(self.accepted_tokens, self.drafts)
        return None if share is None else 1 + share

    def to_dict(self) -> dict[str, object]:
        """The content of counters.json."""
        return asdict(self)


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def snapshot(text: str) -> Snapshot | None:
    """The counters in an answer of /metrics; None when it holds none of them."""
    sums: dict[str, float] = {}
    labels: dict[str, str] = {}
    for line in text.splitlines():
        found = None if line.startswith("#") else SAMPLE.fullmatch(line.strip())
        if found is None:
            continue
        name, inside, value = found.groups()
        if name == CACHE_CONFIG:
            labels = dict(LABEL.findall(inside or ""))
        elif (number := _number(value)) is not None:
            sums[name] = sums.get(name, 0.0) + number
    counts = {ours: sums.get(theirs) for ours, theirs in COUNTERS.items()}
    if all(count is None for count in counts.values()):
        return None
    prefix, offload = labels.get("enable_prefix_caching"), labels.get("kv_offloading_size")
    return Snapshot(
        counts,
        prefix_cache=None if prefix is None else prefix == "True",
        offload=None if offload is None else offload not in {"None", "0", "0.0"},
        lookahead=LOOKAHEAD in sums,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def difference(before: Snapshot | None, after: Snapshot | None) -> Counted | None:
    """The increase; None where a reading is missing, or a counter fell because the engine restarted."""
    if before is None or after is None:
        return None
    added: dict[str, float | None] = {}
    for name in COUNTERS:
        first, last = before.counts.get(name), after.counts.get(name)
        # A counter that appears during the run began at zero.
        added[name] = None if last is None else last - (first or 0.0)
    if any(value is not None and value < 0 for value in added.values()):
        return None
    return Counted(**added, prefix_cache=after.prefix_cache, offload=after.offload, lookahead=after.lookahead)
