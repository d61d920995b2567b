"""The kernels of the GPU integration (`kernels.cu`), queued on torch's current stream.

A host thread is put off its processor now and then for tens of milliseconds. The kernel that takes drafts waits for the
host as long as the policy's `device_wait_us` and `device_wait_row_us` say, and goes on without the cache's drafts after
that. The next step record reports it.

They are launched through the driver: with Triton each took the engine's one thread 25 to 40 microseconds of a step.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor
from windlass_lookahead.policy import DEFAULTS
from windlass_lookahead.round_trip import RECORD_HEADER

from windlass.engine.nvrtc import Launch, kernel

FILES = ("lookahead/kernels.cu",)
PATIENCE_NS, ROW_NS = (int(1000 * DEFAULTS[name]) for name in ("device_wait_us", "device_wait_row_us"))
_WARP, _WRITING, _TAKING, _PLACING = 32, 1024, 256, 1024  # threads; the last at most: as many as rows


UNREAD = -1
"""In the place of a row's first draft of a model that has not read the row's text."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """A step's drafts and how sure they are, on the device: [rows, most] each, rows as many as requests at a time."""

    tokens: Tensor
    sure: Tensor
    sure_by_place: Tensor
    """By a request's place among the requests; each row of the others is its row in the step."""
    source: Tensor
    """int32 [rows], by a request's place: whose its last drafts are (CACHE, LATE or MODEL of the round trip)."""


@dataclass(frozen=True, slots=True)
class ModelDrafts:
    """What a model beside the cache drafted after a step, as the device sees it."""

    tokens: Tensor
    """int64 [rows or more, most], by row."""
    sure: Tensor
    """float32 [most], by place: that a draft is accepted if those before it are."""
    count: int
    """Drafts of each row that are there, the first ones; a row that begins with UNREAD has none."""
    has_rested: bool = False
    """It did not read the step either."""


def write_record(
    step: int,
    settled: tuple[Tensor, Tensor],
    places: Tensor,
    outcome: tuple[Tensor, Tensor],
    source: Tensor,
    host: tuple[Tensor, Tensor],
) -> None:
    """Write a step record to the host's int32 [rows, RECORD_HEADER + span], newest tokens first; `source` is cleared.

    Then the kernel rings the doorbell: the step's number goes to the host's other array, int32 [1].

    Settled are all tokens, int32 [requests, any], and how many, int32 [requests]; `places` int64 [rows] are the rows'
    among the requests; the outcome is how many tokens a row emitted, and how many were rejected, int32 [rows].
    """
    _only(torch.int64, places)
    _only(torch.int32, *settled, *outcome)
    tokens, lengths = settled
    launch = _write(places.get_device(), host[0].shape[1] - RECORD_HEADER)
    launch.numbered(tokens.stride(0), len(places), step)(tokens, places, lengths, *outcome, source, *host)


def take_drafts(  # noqa: PLR0913, PLR0917 - what lies on the device, and where it goes
    step: int,
    completed: Tensor,
    answer: tuple[Tensor, Tensor],
    places: Tensor,
    drafts: Drafts,
    tokens_by_place: Tensor,
    model: ModelDrafts | None = None,
    more_us: int = 0,
) -> None:
    """A step's drafts as soon as they are there, or none: 0, sure by 0, and LATE.

    `completed` int32 [1] is the last step that the host completed; its answer are tokens int64 and confidences float32,
    [rows, most]. Tokens go to `tokens_by_place` int64 [requests, most or more], too. A row has the model's drafts where
    they are expected to save more tokens than the cache's. A host that drafts with a model of its own is waited for
    `more_us` microseconds longer.
    """
    beside = model or ModelDrafts(drafts.tokens, drafts.sure, 0)
    _only(torch.int64, places, tokens_by_place, beside.tokens)
    _only(torch.float32, beside.sure)
    launch = _take(places.get_device(), answer[0].shape[1])
    launch.numbered(tokens_by_place.stride(0), len(places), step, beside.count, more_us)(
        *(completed, *answer, places, beside.tokens, beside.sure),
        *(drafts.tokens, drafts.sure, tokens_by_place, drafts.sure_by_place, drafts.source),
    )


def place_drafts(
    sure_by_place: Tensor,
    places: Tensor,
    plan: tuple[Tensor, Tensor],
    starts: tuple[Tensor, Tensor],
    budget: int,
    bonus: int,
) -> None:
    """Place the drafts that most probably survive, as many as the budget, at most all that are planned.

    `sure_by_place` float32 [requests, most]: that a draft is accepted if those before it are. The plan is a row's
    drafts and its other tokens, int32 [rows or more]; the starts are where its logits begin and its tokens, int32 [rows
    + 1 or more]. A row has `bonus` logits without drafts.
    """
    _only(torch.int64, places)
    _only(torch.int32, *plan, *starts)
    launch = _place(places.get_device(), *sure_by_place.shape)
    launch.numbered(len(places), budget, bonus)(sure_by_place, places, *plan, *starts)


def _only(dtype: torch.dtype, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype is not dtype:
            raise TypeError(f"this vLLM hands {tensor.dtype} where {dtype} was; leave --use-lookahead out")


@functools.cache
def _write(device: int, span: int) -> Launch:
    run = kernel(device, FILES, "write_record", 0, _macros(SPAN=span))
    return Launch(run, (1, 1, 1), _WRITING, 8, 0, 0, 0)


@functools.cache
def _take(device: int, most: int) -> Launch:
    run = kernel(device, FILES, "take_drafts", 0, _macros(MOST=most))
    return Launch(run, (1, 1, 1), _TAKING, 11, 0, 0, 0, 0, 0)


@functools.cache
def _place(device: int, requests: int, most: int) -> Launch:
    threads = min(_PLACING, -(-requests // _WARP) * _WARP)
    run = kernel(device, FILES, "place_drafts", 0, _macros(MOST=most, THREADS=threads, ROWS=-(-requests // threads)))
    return Launch(run, (1, 1, 1), threads, 6, 0, 0, 0)


def _macros(**values: int) -> tuple[str, ...]:
    sizes = {
        "MOST": 1,
        "SPAN": 1,
        "RECORD_HEADER": RECORD_HEADER,
        "THREADS": _WARP,
        "ROWS": 1,
        "PATIENCE_NS": PATIENCE_NS,
        "ROW_NS": ROW_NS,
    }
    return tuple(f"{name}={value}" for name, value in {**sizes, **values}.items())
