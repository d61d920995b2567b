"""Runs inside the serving image: compares the quantizers with a plain search in float64, over random shapes.

Usage: quantize_exactly.py CASES     Prints the cases that differ as a line of JSON.
"""

import json
import sys

import torch
from windlass.quantization import int8, layout, nf4, packing
from windlass.quantization.product import quantized_linear

KINDS = ("normal", "zeros", "one", "huge", "tiny", "bfloat16")


def matrix(kind: str, rows: int, columns: int) -> torch.Tensor:
    """A matrix of one kind of values."""
    weight = torch.randn(rows, columns) * 0.02
    if kind == "zeros":
        weight[::2] = 0
    if kind == "one":
        weight = torch.zeros(rows, columns)
        weight[:, columns // 2] = -3
    scale = {"huge": 3e4, "tiny": 1e-4}.get(kind, 1)
    return (weight * scale).to(torch.bfloat16 if kind == "bfloat16" else torch.float16)


def nf4_is_nearest(weight: torch.Tensor) -> bool:
    """No other of the sixteen values is nearer than the chosen one."""
    weight = nf4.padded(weight)
    codes, scales = nf4.quantize(weight)
    blocks = weight.double().unflatten(1, (-1, 64))
    book, scale = nf4.values().double(), scales.double().unsqueeze(-1)
    distances = (blocks.unsqueeze(-1) - book * scale.unsqueeze(-1)).abs()
    chosen = distances.gather(-1, codes.long().unflatten(1, (-1, 64)).unsqueeze(-1)).squeeze(-1)
    return bool((chosen <= distances.amin(-1) + 1e-6 * scale).all())


def int8_is_within_half_a_step(weight: torch.Tensor) -> bool:
    """The error is at most half a step, and the largest weight of a row is at 127."""
    quantized, scales = int8.quantize(weight)
    step = scales.double().unsqueeze(1)
    error = (quantized.double() * step - weight.double()).abs()
    full = quantized.abs().amax(1) == (weight.abs().amax(1) > 0) * 127
    return bool((error <= step * 0.50001).all() and full.all())


def packing_is_undone(rows: int, columns: int) -> bool:
    """Both packed forms give back the codes and the scales."""
    rows, columns = 16 * rows, 64 * columns
    codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
    values = torch.randint(-127, 128, (rows, columns), dtype=torch.int8)
    scales = torch.randn(rows, columns // 64).half()
    return (
        torch.equal(packing.unpack_nf4(packing.pack_nf4(codes)), codes)
        and torch.equal(packing.unpack_int8(packing.pack_int8(values)), values)
        and torch.equal(packing.unpack_nf4_scales(packing.pack_nf4_scales(scales)), scales)
    )


def product_is_exact(weight: torch.Tensor, bits: int) -> bool:
    """The operator equals a float64 product of the dequantized weights, within float32's rounding."""
    rows, columns = weight.shape
    packed = layout.pack(weight, bits)
    x, bias = torch.randn(3, columns), torch.randn(rows)
    found = quantized_linear(x, packed.qweight, packed.scales, bias, bits, rows)
    exact = layout.unpack(packed, bits, torch.float32)[:rows, :columns].double()
    wanted = x.double() @ exact.T + bias.double()
    return bool((found.double() - wanted).norm() <= 1e-5 * (1 + wanted.norm()))


def main(cases: int) -> list[str]:
    """The names of the cases that are wrong."""
    wrong = []
    for case in range(cases):
        torch.manual_seed(case)
        rows, columns = (int(size) for size in torch.randint(1, 300, (2,)))
        weight = matrix(KINDS[case % len(KINDS)], rows, columns)
        checks = {
            "nf4": nf4_is_nearest(weight),
            "int8": int8_is_within_half_a_step(weight),
            "packing": packing_is_undone(1 + rows % 5, 1 + columns % 5),
            "product of nf4": product_is_exact(weight, 4),
            "product of int8": product_is_exact(weight, 8),
        }
        wrong += [f"{name} case {case} {rows}x{columns}" for name, right in checks.items() if not right]
    return wrong


if __name__ == "__main__":
    print("RESULT " + json.dumps({"wrong": main(int(sys.argv[1]))}))
