"""The one kernel of the GPU's door: tells the host, in pinned memory, what a step emitted."""

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
    told,  # noqa: ANN001 - int32 [rows, 4 + span]
    step,  # noqa: ANN001
    SPAN: tl.constexpr,  # noqa: N803 - triton's way of writing constants
    WIDTH: tl.constexpr,  # noqa: N803
) -> None:
    """One program a row: step, emitted, rejected, length, then the newest tokens, newest first."""
    row = tl.program_id(0)
    place = tl.load(places + row).to(tl.int64)
    length = tl.load(lengths + place)
    out = told + row * (4 + SPAN)
    tl.store(out, step)
    tl.store(out + 1, tl.load(emitted + row).to(tl.int32))
    tl.store(out + 2, tl.load(rejected + row).to(tl.int32))
    tl.store(out + 3, length.to(tl.int32))
    at = tl.arange(0, WIDTH)
    where = length - 1 - at
    newest = tl.load(tokens + place * stride + where, mask=(at < SPAN) & (where >= 0), other=0)
    tl.store(out + 4 + at, newest, mask=at < SPAN)
