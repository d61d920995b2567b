"""The kernels of the GPU's door: tell the host what a step emitted, take its drafts, and place those to be verified.

A host is put off its processor now and then for tens of milliseconds, most of all where others share it. Whoever takes
drafts waits for it so long as a step's drafts are worth, and goes on without them: the next step tells the host.
"""

from __future__ import annotations

from vllm.triton_utils import tl, triton


@triton.jit(do_not_specialize=["step"])  # type: ignore[untyped-decorator]
def tell(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - a kernel has no objects
    tokens,  # noqa: ANN001 - int32 [requests, stride]: all settled tokens
    stride,  # noqa: ANN001
    places,  # noqa: ANN001 - int64 [rows]: a row's place among the requests
    lengths,  # noqa: ANN001 - int32 [requests]
    emitted,  # noqa: ANN001 - int32 [rows]
    rejected,  # noqa: ANN001 - int32 [rows]
    missed,  # noqa: ANN001 - int32 [requests]: 1 where the last drafts were not taken; set back
    told,  # noqa: ANN001 - int32 [rows, 5 + span]
    step,  # noqa: ANN001
    SPAN: tl.constexpr,  # noqa: N803 - triton's way of writing constants
    WIDTH: tl.constexpr,  # noqa: N803
) -> None:
    """One program a row: step, emitted, rejected, length, missed, then the newest tokens, newest first."""
    row = tl.program_id(0)
    place = tl.load(places + row).to(tl.int64)
    length = tl.load(lengths + place)
    out = told + row * (5 + SPAN)
    tl.store(out, step)
    tl.store(out + 1, tl.load(emitted + row).to(tl.int32))
    tl.store(out + 2, tl.load(rejected + row).to(tl.int32))
    tl.store(out + 3, length.to(tl.int32))
    tl.store(out + 4, tl.load(missed + place))
    tl.store(missed + place, 0)
    at = tl.arange(0, WIDTH)
    where = length - 1 - at
    newest = tl.load(tokens + place * stride + where, mask=(at < SPAN) & (where >= 0), other=0)
    tl.store(out + 5 + at, newest, mask=at < SPAN)


@triton.jit
def _acquired(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The word, and with it what the host wrote before it."""
    return tl.inline_asm_elementwise(
        "ld.acquire.sys.global.b32 $0, [$1];", "=r,l", [word.to(tl.uint64)], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit(do_not_specialize=["step", "rows"])  # type: ignore[untyped-decorator]
def take(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    answered,  # noqa: ANN001 - int32 [1], the host's: the last step that it answered
    step,  # noqa: ANN001
    rows,  # noqa: ANN001
    tokens,  # noqa: ANN001 - int64 [rows, most], the host's
    confidences,  # noqa: ANN001 - float32 [rows, most], the host's
    places,  # noqa: ANN001 - int64 [rows]: a row's place among the requests
    drafts,  # noqa: ANN001 - int64 [rows, most]
    sure,  # noqa: ANN001 - float32 [rows, most]
    drafts_by_place,  # noqa: ANN001 - int64 [requests, stride]
    stride,  # noqa: ANN001
    sure_by_place,  # noqa: ANN001 - float32 [requests, most]
    missed,  # noqa: ANN001 - int32 [requests], written: 1 where the host did not answer in time
    PATIENCE_NS: tl.constexpr,  # noqa: N803
    ROW_NS: tl.constexpr,  # noqa: N803 - more of it for each row
    MOST: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr,  # noqa: N803 - at once
    WIDTH: tl.constexpr,  # noqa: N803
) -> None:
    """One warp: all drafts and confidences, as soon as they are there; without an answer in time, none.

    Several would look at the host's word one after the other, 1 µs each, and might see different ones. A host that has
    not answered the step before either is not waited for. Numbers wrap, so their difference counts.
    """
    patience_ns = PATIENCE_NS + ROW_NS * rows
    begun = tl.extra.cuda.globaltimer()
    behind = step - _acquired(answered)
    waits = behind == 1
    while waits:
        behind = step - _acquired(answered)
        waits = (behind > 0) & (tl.extra.cuda.globaltimer() - begun < patience_ns)
    came = behind <= 0
    at = tl.arange(0, WIDTH)[None, :]
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        here = row < rows
        mine = here & (at < MOST)
        place = tl.load(places + row, mask=here, other=0).to(tl.int64)
        from_ = row * MOST + at
        token = tl.load(tokens + from_, mask=mine & came, other=0, cache_modifier=".cv")
        confidence = tl.load(confidences + from_, mask=mine & came, other=0.0, cache_modifier=".cv")
        tl.store(drafts + from_, token, mask=mine)
        tl.store(sure + from_, confidence, mask=mine)
        tl.store(drafts_by_place + place * stride + at, token, mask=mine)
        tl.store(sure_by_place + place * MOST + at, confidence, mask=mine)
        tl.store(missed + place, tl.where(came, 0, 1), mask=here)


@triton.jit
def _product(one, two):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return one * two


@triton.jit(do_not_specialize=["rows", "budget", "bonus"])  # type: ignore[untyped-decorator]
def allot(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    sure_by_place,  # noqa: ANN001 - float32 [requests, most]: that a draft is accepted if those before it are
    places,  # noqa: ANN001 - int64 [rows]
    planned,  # noqa: ANN001 - int32 [rows]: drafts that the engine planned
    plain,  # noqa: ANN001 - int32 [rows]: its other tokens
    logits_from,  # noqa: ANN001 - int32 [rows + 1], written: where each row's logits begin
    tokens_from,  # noqa: ANN001 - int32 [rows + 1], written: where each row's tokens begin
    rows,  # noqa: ANN001
    budget,  # noqa: ANN001 - drafts to verify, at most all that are planned
    bonus,  # noqa: ANN001 - logits of a row without drafts
    MOST: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr,  # noqa: N803
    WIDTH: tl.constexpr,  # noqa: N803
) -> None:
    """One program: the drafts that most probably survive, as many as the budget, and the batch that they make.

    Survival falls along a row, so the best drafts of all rows are the first ones of each.
    """
    row = tl.arange(0, ROWS)
    at = tl.arange(0, WIDTH)
    here = row < rows
    place = tl.load(places + row, mask=here, other=0)
    most = tl.load(planned + row, mask=here, other=0)
    open_ = (at[None, :] < most[:, None]) & (at[None, :] < MOST)
    sure = tl.load(sure_by_place + place[:, None] * MOST + at[None, :], mask=open_, other=0.0)
    survival = tl.associative_scan(sure, 1, _product)
    # 16 bits are fine enough, and the threshold is then found in 16 looks. 0 is no draft at all.
    score = tl.where(open_, 1 + (tl.minimum(tl.maximum(survival, 0.0), 1.0) * 65534.0).to(tl.int32), 0)
    threshold = 0
    for bit in tl.static_range(16):
        tried = threshold + (32768 >> bit)
        threshold = tl.where(tl.sum((score >= tried).to(tl.int32)) >= budget, tried, threshold)
    above = (score > threshold).to(tl.int32)
    level = ((score == threshold) & open_).to(tl.int32)
    in_row = tl.sum(level, 1)
    before = tl.cumsum(in_row, 0) - in_row  # of those at the threshold, the first rows' come first
    left = budget - tl.sum(above) - before
    allotted = tl.sum(above, 1) + tl.minimum(in_row, tl.maximum(left, 0))
    extra = tl.load(plain + row, mask=here, other=0)
    tl.store(logits_from + 1 + row, tl.cumsum(tl.where(here, allotted + bonus, 0), 0), mask=here)
    tl.store(tokens_from + 1 + row, tl.cumsum(allotted + extra, 0), mask=here)
    tl.store(logits_from, 0)
    tl.store(tokens_from, 0)
