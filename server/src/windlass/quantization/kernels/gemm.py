"""The product of float16 rows and packed NF4 or INT8 weights on a GPU, and the whole matrix made float16 again."""

from __future__ import annotations

import functools

import torch

from windlass.quantization.kernels.nvrtc import Launch, kernel
from windlass.quantization.kernels.tiling import TABLE_BYTES, Few, Tiling

_ANY = Few(1, 1, 8, 1, 1)  # `dequantize` reads none of its sizes
_DEQUANTIZE_WARPS = 8


@functools.cache
def _workspace(device: int, sums: int, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for the parts of a split along K, and the counters, which every launch leaves at zero."""
    place = torch.device("cuda", device)
    return torch.empty(sums, dtype=torch.float32, device=place), torch.zeros(groups, dtype=torch.int32, device=place)


def _room(size: int, least: int) -> int:
    """The next power of two, so that few workspaces are made."""
    return max(least, 1 << (size - 1).bit_length())


@functools.lru_cache(maxsize=8192)
def _prepared(
    device: int, bits: int, tiling: Tiling, shape: tuple[int, int, int]
) -> tuple[Launch, torch.Tensor, torch.Tensor]:
    """The launch for x [m, columns] and W [rows, columns], and its workspace."""
    m, rows, columns = shape
    grid = tiling.grid(m, rows)
    groups = grid[0] * grid[1] * grid[2] // tiling.splits
    sums = groups * tiling.splits * tiling.block[0] * tiling.block[1] if tiling.splits > 1 else 1
    run = kernel(device, tiling.files, tiling.name, tiling.shared_bytes(bits), tiling.macros(bits))
    launch = Launch(run, grid, tiling.threads, 7, m, rows, columns, tiling.splits)
    return launch, *_workspace(device, _room(sums, 1 << 20), _room(groups, 1 << 12))


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
    launch, parts, arrived = _prepared(x.get_device(), bits, tiling, (m, rows, columns))
    launch(x, weights, scales, bias, out, parts, arrived)
    return out


@functools.lru_cache(maxsize=1024)
def _dequantize(device: int, bits: int, down: int, across: int) -> Launch:
    run = kernel(device, _ANY.files, "dequantize", TABLE_BYTES[bits], _ANY.macros(bits))
    blocks = min(-(-down * across // (_DEQUANTIZE_WARPS * 4)), 132 * 6)
    return Launch(run, (blocks, 1, 1), _DEQUANTIZE_WARPS * 32, 3, down * 16, across * 64)


def dequantized(
    weights: torch.Tensor, scales: torch.Tensor, bits: int, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The matrix [rows, columns] in float16, made by one kernel; in the first rows of `out`, if that is given."""
    down, across, _ = weights.shape
    if out is None:
        out = torch.empty(down * 16, across * 64, dtype=torch.float16, device=weights.device)
    _dequantize(weights.get_device(), bits, down, across)(weights, scales, out)
    return out[: down * 16]
