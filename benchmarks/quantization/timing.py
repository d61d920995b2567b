"""Times a call on a GPU, with weights that are not in its cache, and compares a result with float64."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import torch

COLD_BYTES = 2.6e8  # of weights walked over in one replay: several times the L2 cache


def graph_us(calls: list[Callable[[], object]], replays: int = 5) -> float:
    """Microseconds of one call: the median replay of a graph that holds all of them."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    graph.replay()
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / len(calls))
    return statistics.median(times)


def issue_us(call: Callable[[], object], count: int = 200) -> float:
    """Microseconds that the host needs to issue a call outside a graph, as in a prefill that is not compiled."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    took = time.perf_counter() - start
    torch.cuda.synchronize()
    return took / count * 1e6


def copies(tensors: tuple[torch.Tensor, ...]) -> list[tuple[torch.Tensor, ...]]:
    """The tensors and as many copies as make the cache cold."""
    size = sum(tensor.nbytes for tensor in tensors)
    return [tensors, *(tuple(t.clone() for t in tensors) for _ in range(min(24, math.ceil(COLD_BYTES / size)) - 1))]


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative, in the Frobenius norm."""
    return float((found.double() - wanted).norm() / wanted.norm())
