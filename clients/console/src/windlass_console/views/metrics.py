"""A pod's metrics reduced to the few that pages draw. Pure.

The text comes from a pod: names that are not known are passed over, and so are lines that cannot be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from typing_extensions import TypedDict

ENGINES = ("vllm:", "windlass_")  # how the names of the metrics below begin
SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)")
LE = re.compile(r'(?:^|,)\s*le="([^"]+)"')
BUCKETS_MAX = 64
TTFT = ("vllm:time_to_first_token_seconds", "windlass_deepspeed_time_to_first_token_seconds")
# The key of an answer and the metrics that it is the sum of, whichever the engine has.
SUMS: dict[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running", "windlass_deepspeed_requests_running"),
    "waiting": ("vllm:num_requests_waiting", "windlass_deepspeed_requests_waiting"),
    "promptTokens": ("vllm:prompt_tokens_total", "windlass_deepspeed_prompt_tokens_total"),
    "generationTokens": ("vllm:generation_tokens_total", "windlass_deepspeed_generation_tokens_total"),
    "requests": ("vllm:request_success_total", "windlass_deepspeed_requests_total"),
    "ttftSum": tuple(f"{name}_sum" for name in TTFT),
    "ttftCount": tuple(f"{name}_count" for name in TTFT),
    "itlSum": ("vllm:inter_token_latency_seconds_sum",),
    "itlCount": ("vllm:inter_token_latency_seconds_count",),
    "prefixQueries": ("vllm:prefix_cache_queries_total",),
    "prefixHits": ("vllm:prefix_cache_hits_total",),
    "drafted": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted": ("vllm:spec_decode_num_accepted_tokens_total",),
}
KV_USE = "vllm:kv_cache_usage_perc"  # 0 to 1, of each engine
# The lookahead cache counts what it drafted apart from the engine.
HITS, MISSES = "windlass_lookahead_hit_len_total", "windlass_lookahead_invalid_len_total"


class PodMetrics(TypedDict, total=False):
    """Totals since the pod's start; null where its engine has no such metric."""

    problem: str
    running: float | None
    waiting: float | None
    kvUse: float | None
    promptTokens: float | None
    generationTokens: float | None
    requests: float | None
    ttftSum: float | None
    ttftCount: float | None
    ttftBuckets: list[tuple[float, float]] | None
    itlSum: float | None
    itlCount: float | None
    prefixQueries: float | None
    prefixHits: float | None
    drafted: float | None
    accepted: float | None


def reduced(text: str) -> PodMetrics:
    """The metrics of a pod from Prometheus' text."""
    sums: dict[str, float] = {}
    buckets: dict[float, float] = {}
    kv_use: list[float] = []
    for name, labels, value in _samples(text.split("\n")):
        sums[name] = sums.get(name, 0.0) + value
        if name == KV_USE:
            kv_use.append(value)
        edge = _edge(name, labels)
        if edge is not None and (edge in buckets or len(buckets) < BUCKETS_MAX):
            buckets[edge] = buckets.get(edge, 0.0) + value
    answer = PodMetrics(
        kvUse=min(1.0, max(kv_use)) if kv_use else None,
        ttftBuckets=sorted(buckets.items()) if buckets else None,
    )
    for key, names in SUMS.items():
        answer[key] = _sum(sums, names)  # type: ignore[literal-required]
    if HITS in sums or MISSES in sums:
        hits = sums.get(HITS, 0.0)
        answer["drafted"], answer["accepted"] = hits + sums.get(MISSES, 0.0), hits
    return answer


def _samples(lines: Iterable[str]) -> Iterable[tuple[str, str, float]]:
    for line in lines:
        found = SAMPLE.match(line) if line.startswith(ENGINES) else None
        if found is None:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        if math.isfinite(value):
            yield found["name"], found["labels"] or "", value


def _edge(name: str, labels: str) -> float | None:
    """The upper edge of a bucket of the time to the first token, in seconds; None for any other sample."""
    if name.removesuffix("_bucket") not in TTFT or not name.endswith("_bucket"):
        return None
    found = LE.search(labels)
    try:
        edge = float(found[1]) if found else math.inf
    except ValueError:
        return None
    return edge if math.isfinite(edge) else None


def _sum(sums: Mapping[str, float], names: Iterable[str]) -> float | None:
    found = [sums[name] for name in names if name in sums]
    return sum(found) if found else None
