"""Quantized weights as the kernels read them, and the float64 matrix that they stand for."""

import torch
from windlass.engine.quantization import int8, nf4, packing
from windlass.engine.quantization.kernels.tiling import Kind

LARGEST, LEAST = 448.0, 1 / (448 * 512)  # of E4M3; vLLM's least scale


def fp8_of(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """E4M3 [columns, rows], its columns contiguous, float32 scales [rows, 1] as vLLM has them; the float64 matrix."""
    largest = weight.abs().amax(1, keepdim=True).float()
    scales = (largest / torch.full_like(largest, LARGEST)).clamp_min(LEAST)
    values = torch.cat([(part / scale).clamp_(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
                        for part, scale in zip(weight.split(8192), scales.split(8192), strict=True)])  # fmt: skip
    return values.t(), scales, values.double() * scales.double()


def quantized(weight: torch.Tensor, kind: Kind) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Weights and scales, and the float64 matrix that they stand for."""
    if kind == 4:
        codes, blocks = nf4.quantize(weight)
        return (packing.pack_nf4(codes), packing.pack_nf4_scales(blocks)), nf4.dequantize(codes, blocks).double()
    if kind == 8:
        values, scales = int8.quantize(weight)
        return (packing.pack_int8(values), scales), values.double() * scales.double().unsqueeze(1)
    values, scales, exact = fp8_of(weight)
    return (values, scales), exact
