"""On a GPU: norms and gated SiLUs that go with a product, beside the product of what torch makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from timing import error

WORST = 4e-3  # a number on the border of two may be rounded to the other one
EPSILON = 1e-6


def different(
    product: Any,  # noqa: ANN401 - a module with the operators of one sort of weights
    words: tuple[Any, ...],
    dtype: torch.dtype,
    columns: int,
    rows_of_x: tuple[int, ...],
) -> Iterator[str]:
    """What is wrong, of one matrix: `words` is what the product takes behind x [m, columns]."""
    gain = (torch.rand(columns, device="cuda") + 0.5).to(dtype)
    for m in rows_of_x:
        x, residual = (torch.randn(m, columns, device="cuda").to(dtype) for _ in range(2))
        gated = torch.randn(m, 2 * columns, device="cuda").to(dtype) * 2
        out, sums = product.after_add_norm(x, residual, gain, EPSILON, *words)
        if not torch.equal(sums, x + residual):
            yield f"{dtype} {columns} columns, {m} rows: the sum differs"
        ways = {
            "add and norm": (out, normed(x.float() + residual.float(), gain, dtype)),
            "norm": (product.after_norm(x, gain, EPSILON, *words), normed(x.float(), gain, dtype)),
            "silu": (product.after_silu(gated, *words), silu(gated, dtype)),
        }
        for name, (found, made) in ways.items():
            if not (far := error(found, product.on_gpu(made, *words).double())) < WORST:
                yield f"{dtype} {columns} columns, {m} rows, {name}: {far:.1e}"


def normed(wide: torch.Tensor, gain: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """By its root mean square, in float32, rounded once."""
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * gain.float()).to(dtype)


def silu(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Of the first half of the columns, times the second, in float32, rounded once."""
    first, second = x.float().chunk(2, -1)
    return (torch.nn.functional.silu(first) * second).to(dtype)
