"""Products of x and quantized weights on a GPU: packed NF4 or INT8, or the engine's FP8. Matrices made whole again."""

from __future__ import annotations

import functools

import torch

from windlass.engine.nvrtc import Boxes, Launch, kernel
from windlass.engine.quantization.kernels.tiling import (
    FP8,
    FP8_BF16,
    HOPPER,
    TABLE_BYTES,
    Few,
    Kind,
    PackedStream,
    Stream,
    Tiling,
)

_ANY = Few(1, 1, 8, 1, 1)  # `dequantize` reads none of its sizes
_DEQUANTIZE_WARPS = 8
FP8_OF = {torch.float16: FP8, torch.bfloat16: FP8_BF16}
"""By the type of x."""


@functools.cache
def card(device: int) -> tuple[int, int, str]:
    """Multiprocessors, the major capability and the name."""
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.major, properties.name


@functools.cache
def _workspace(device: int, sums: int, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for the parts of a split along K, and the counters, which every launch leaves at zero."""
    place = torch.device("cuda", device)
    return torch.empty(sums, dtype=torch.float32, device=place), torch.zeros(groups, dtype=torch.int32, device=place)


def _shared_room(device: int, sums: int, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A workspace that nearly all launches share, or one of the next power of two."""
    most = 9 << 20 if card(device)[1] == HOPPER else 1 << 20  # 132 blocks with two parts of 128 x 256 sums
    return _workspace(device, _at_least(sums, most), _at_least(groups, 1 << 12))


def _at_least(size: int, least: int) -> int:
    return least if size <= least else 1 << (size - 1).bit_length()


@functools.lru_cache(maxsize=8192)
def _prepared(
    device: int, kind: Kind, tiling: Few, shape: tuple[int, int, int]
) -> tuple[Launch, torch.Tensor, torch.Tensor]:
    """The launch for x [m, columns] and W [rows, columns], and its workspace."""
    m, rows, columns = shape
    grid = tiling.grid(m, rows)
    groups = grid[0] * grid[1] * grid[2] // tiling.splits
    sums = groups * tiling.splits * tiling.block[0] * tiling.block[1] if tiling.splits > 1 else 1
    run = kernel(device, tiling.files, tiling.name, tiling.shared_bytes(kind), tiling.macros(kind))
    launch = Launch(run, grid, tiling.threads, 7, m, rows, columns, tiling.splits, ahead=tiling.ahead)
    return launch, *_shared_room(device, sums, groups)


def fused(
    x: torch.Tensor,
    weights: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    bits: int,
    tiling: Tiling,
) -> torch.Tensor:
    """x [m, columns] float16, contiguous, times packed weights [rows / 16, columns / 64, …]: [m, rows] float16."""
    m, columns = x.shape
    rows = weights.shape[0] * 16
    out = x.new_empty(m, rows)
    if isinstance(tiling, PackedStream):
        launch, parts, arrived = _streamed(x.get_device(), bits, tiling, (m, rows, columns))
        boxes = _rows(x.data_ptr(), m, columns, tiling), *_packed(weights, scales, bits, tiling)
        launch.over(boxes, scales, bias, out, parts, arrived)
        return out
    launch, parts, arrived = _prepared(x.get_device(), bits, tiling, (m, rows, columns))
    launch(x, weights, scales, bias, out, parts, arrived)
    return out


def fused_fp8(
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, tiling: Few
) -> torch.Tensor:
    """x [m, columns] float16 or bfloat16, contiguous, times E4M3 [columns, rows], whose columns are contiguous."""
    m, columns = x.shape
    rows = weight.shape[1]
    out = x.new_empty(m, rows)
    launch, parts, arrived = _prepared(x.get_device(), FP8_OF[x.dtype], tiling, (m, rows, columns))
    launch(x, weight, scales, bias, out, parts, arrived)
    return out


@functools.lru_cache(maxsize=4096)
def _matrix(start: int, rows: int, columns: int, box_rows: int) -> Boxes:
    """FP8 [rows, columns], rows of 128 columns at a time."""
    return Boxes(start, 1, (columns, rows), (columns,), (128, box_rows), swizzled=True)


@functools.lru_cache(maxsize=4096)
def _rows(start: int, m: int, columns: int, tiling: PackedStream) -> Boxes:
    """x [m, columns] float16, as a block asks for it: 64 columns side by side."""
    sizes, strides = (128, m, columns // 64), (2 * columns, 128)
    return Boxes(start, 1, sizes, strides, tiling.x_box, swizzled=True)


def _packed(weights: torch.Tensor, scales: torch.Tensor, bits: int, tiling: PackedStream) -> tuple[Boxes, Boxes]:
    """W, and NF4's scales, as `layout` has them: for each tile of 16 rows the columns of a stage, or of a box."""
    down, across, _ = weights.shape
    matrix = _tiles(weights.data_ptr(), down, across, 128 * bits, tiling.box_blocks(bits), tiling.block[1] // 16)
    if bits == 8:
        return matrix, matrix  # its scales are not streamed
    return matrix, _tiles(scales.data_ptr(), down, across, 32, tiling.kb, tiling.block[1] // 16)


@functools.lru_cache(maxsize=8192)
def _tiles(start: int, down: int, across: int, bytes_: int, box_across: int, box_down: int) -> Boxes:
    """Tiles [down, across] of so many bytes each."""
    sizes = across * bytes_ // 8, down
    return Boxes(start, 8, sizes, (across * bytes_,), (box_across * bytes_ // 8, box_down), swizzled=False)


@functools.lru_cache(maxsize=8192)
def _streamed(
    device: int, kind: Kind, tiling: Stream, shape: tuple[int, int, int]
) -> tuple[Launch, torch.Tensor, torch.Tensor]:
    """As `_prepared`."""
    m, rows, columns = shape
    blocks = tiling.blocks(m, rows, columns, card(device)[0])
    run = kernel(device, tiling.files, tiling.name, tiling.shared_bytes(kind), tiling.macros(kind))
    tiles = tiling.tiles(m, rows)
    whole = [tiling.whole(m, rows, blocks)] if isinstance(tiling, PackedStream) else []
    launch = Launch(run, (blocks, 1, 1), tiling.threads, 8, m, rows, columns, *whole, ahead=True)
    return launch, *_shared_room(device, blocks * tiling.sums, 2 * (tiles - sum(whole)))  # counters of a pair for each


def streamed(
    tokens: tuple[torch.Tensor, torch.Tensor],
    weight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    tiling: Stream,
    dtype: torch.dtype,
) -> torch.Tensor:
    """As `fused_fp8`, of what `Tokens.quantized(tiling.bm)` made of m rows: [m, rows] of a type, which `bias` has."""
    values, token_scales = tokens
    m, columns, rows = len(token_scales), values.shape[1], weight.shape[1]
    out = torch.empty(m, rows, dtype=dtype, device=weight.device)
    launch, parts, arrived = _streamed(weight.get_device(), FP8_OF[dtype], tiling, (m, rows, columns))
    matrix = _matrix(weight.data_ptr(), rows, columns, tiling.block[1])
    launch.over((matrix,), values, token_scales, scales, bias, out, parts, arrived)
    return out


@functools.lru_cache(maxsize=1024)
def _dequantize(device: int, bits: int, down: int, across: int) -> Launch:
    run = kernel(device, _ANY.files, "dequantize", TABLE_BYTES[bits], _ANY.macros(bits))
    blocks = min(-(-down * across // (_DEQUANTIZE_WARPS * 4)), 132 * 6)
    return Launch(run, (blocks, 1, 1), _DEQUANTIZE_WARPS * 32, 3, down * 16, across * 64)


def dequantized(weights: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    """The matrix [rows, columns] in float16, made by one kernel."""
    down, across, _ = weights.shape
    out = torch.empty(down * 16, across * 64, dtype=torch.float16, device=weights.device)
    _dequantize(weights.get_device(), bits, down, across)(weights, scales, out)
    return out
