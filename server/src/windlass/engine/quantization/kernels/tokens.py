"""The rows of x (tokens) as a product with FP8 weights takes them, and with them what is in front of it in a model."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from windlass.engine.nvrtc import Launch, kernel
from windlass.engine.quantization.kernels.gemm import FP8_OF
from windlass.engine.quantization.kernels.tiling import sources, weight_macros

_VECTOR = 8  # numbers that a thread reads at once
_THREADS = 128  # of a block that need not see a whole row
_FEW_ROWS, _LONG, _CLUSTER = 64, 8192, 8  # rows, their columns, and blocks that share one; eight run on every card


@dataclass(slots=True)
class Tokens:
    """x [m, columns] as it is, gated (x [m, 2 columns]), or normalized; float16 or bfloat16, contiguous.

    `whole` or `quantized` is called, once; with a residual that also fills `total`.
    """

    x: torch.Tensor
    is_gated: bool = False  # SiLU of the first half of the columns, times the second
    gain: torch.Tensor | None = None  # [columns]: x is divided by its root mean square, and multiplied by this
    epsilon: float = 0.0  # added to the mean of the squares
    residual: torch.Tensor | None = None  # [m, columns], added before that
    total: torch.Tensor | None = None  # the sum with it

    @property
    def columns(self) -> int:
        """That the product takes."""
        width = int(self.x.shape[1])
        return width // 2 if self.is_gated else width

    def whole(self) -> torch.Tensor:
        """[m, columns], of x's type."""
        if not self.is_gated and self.gain is None:
            return self.x
        out = self.x.new_empty(len(self.x), self.columns)
        self._run(out, None, "WHOLE")
        return out

    def quantized(self, tiled: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """E4M3 [m, columns] and float32 scales [m, 1]. Columns are a multiple of 8.

        With `tiled`, not less than m, E4M3 is [columns / 128, tiled, 128], swizzled (tokens.cu), its shape [tiled,
        columns], and rows past m are undefined.
        """
        m = len(self.x)
        if 0 < tiled < m:
            raise ValueError(f"{m} rows do not fit into tiles of {tiled}")
        values = torch.empty(tiled or m, self.columns, dtype=torch.float8_e4m3fn, device=self.x.device)
        scales = torch.empty(m, 1, dtype=torch.float32, device=self.x.device)
        self._run(values, scales, *([f"TILED={tiled}"] if tiled else []))
        return values, scales

    def _run(self, out: torch.Tensor, scales: torch.Tensor | None, *macros: str) -> None:
        if self.residual is not None:
            self.total = torch.empty_like(self.residual)
        front = [
            *(["SILU"] if self.is_gated else []),
            *(["NORM"] if self.gain is not None else []),
            *(["ADDS"] if self.residual is not None else []),
        ]
        place = self.x.get_device(), self.x.dtype
        launch = _launch(*place, (len(self.x), self.columns), (*front, *macros), self.epsilon)
        launch(self.x, out, scales, self.residual, self.total, self.gain)


@functools.lru_cache(maxsize=8192)
def _launch(device: int, dtype: torch.dtype, shape: tuple[int, int], macros: tuple[str, ...], epsilon: float) -> Launch:
    m, columns = shape
    count = columns // _VECTOR
    is_ahead = torch.cuda.get_device_capability(device) >= (9, 0)
    across, how = _blocks_of_a_row(shape, macros, has_clusters=is_ahead)
    vectors = -(-count // (1024 * across))
    every = (*weight_macros(FP8_OF[dtype]), f"VECTORS={vectors}", *macros, *how, *(["AHEAD"] if is_ahead else []))
    run = kernel(device, sources("tokens.cu"), "quantize_tokens", 0, every)
    threads = -(-count // (32 * vectors * across)) * 32
    return Launch(run, (m, across, 1), threads, 6, count, epsilon, ahead=is_ahead)


def _blocks_of_a_row(shape: tuple[int, int], macros: tuple[str, ...], *, has_clusters: bool) -> tuple[int, list[str]]:
    """How many, and the macro for it: several where few long rows would leave the card empty."""
    m, columns = shape
    if "WHOLE" in macros and "SILU" in macros:
        return -(-columns // (_VECTOR * _THREADS)), []
    if has_clusters and "NORM" not in macros and m <= _FEW_ROWS and columns >= _LONG:
        return _CLUSTER, [f"CLUSTER={_CLUSTER}"]
    return 1, []
