"""Each method as exact arithmetic on a transformers model: weights as quantized, activations as rounded.

Every maker changes a float32 model in place and returns the bytes of its linear layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from windlass.engine.quantization import int8, layout, nf4
from windlass.engine.quantization.codebook import BLOCK
from windlass.engine.quantization.gptq.packing import unpacked
from windlass.engine.quantization.smoothquant.search import through_int8

Module = torch.nn.Module
FP8 = torch.float8_e4m3fn


def _linears(model: Module) -> list[tuple[str, torch.nn.Linear]]:
    """All but the output head, which the demo model shares with its embedding."""
    modules = model.named_modules()
    return [(name, layer) for name, layer in modules if isinstance(layer, torch.nn.Linear) and name != "lm_head"]


def _each(change: Callable[[torch.Tensor], tuple[torch.Tensor, int]]) -> Callable[[Module], int]:
    def make(model: Module) -> int:
        size = 0
        for _, layer in _linears(model):
            layer.weight.data, held = change(layer.weight.data)
            size += held
        return size

    return make


def _packed(bits: int) -> Callable[[torch.Tensor], tuple[torch.Tensor, int]]:
    def change(weight: torch.Tensor) -> tuple[torch.Tensor, int]:
        held = layout.pack(weight, bits)
        found = layout.unpack(held, bits, torch.float32)[: weight.shape[0], : weight.shape[1]]
        return found, held.qweight.nbytes + held.scales.nbytes

    return change


def _grid(levels: torch.Tensor) -> Callable[[torch.Tensor], tuple[torch.Tensor, int]]:
    """NF4's packing (blocks of 64, float16 scales) with other values."""

    def change(weight: torch.Tensor) -> tuple[torch.Tensor, int]:
        blocks = nf4.padded(weight).unflatten(1, (-1, BLOCK))
        scales = blocks.abs().amax(-1, keepdim=True).half().float()
        shares = blocks / torch.where(scales == 0, 1, scales)
        codes = torch.bucketize(shares, (levels[1:] + levels[:-1]) / 2)
        found = (levels[codes] * scales).flatten(1)[:, : weight.shape[1]]
        return found, codes.numel() // 2 + 2 * scales.numel()

    return change


def through_fp8(rows: torch.Tensor) -> torch.Tensor:
    """What E4M3 with a scale for each row leaves of a matrix."""
    scales = (rows.abs().amax(-1, keepdim=True) / torch.finfo(FP8).max).clamp_min(1e-12)
    return (rows / scales).to(FP8).float() * scales


def _rounding_inputs(model: Module, through: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for _, layer in _linears(model):
        layer.register_forward_pre_hook(lambda _, words: (through(words[0].flatten(0, -2)).view_as(words[0]),))


def fp8(model: Module) -> int:
    """A scale for each output of the weights, and for each token."""
    size = _each(lambda weight: (through_fp8(weight), weight.numel() + 4 * weight.shape[0]))(model)
    _rounding_inputs(model, through_fp8)
    return size


def plain_w8a8(model: Module) -> int:
    """INT8 weights and activations without any smoothing."""
    size = _each(lambda weight: (through_int8(weight), weight.numel() + 4 * weight.shape[0]))(model)
    _rounding_inputs(model, through_int8)
    return size


def smoothquant(model: Module, file: Path) -> int:
    """The file's weights, norms and biases, INT8 activations."""
    tensors, size = load_file(file), 0
    state = model.state_dict()
    for name, tensor in tensors.items():
        if name.endswith(".weight_scale"):
            continue
        scales = tensors.get(f"{name}_scale")
        if scales is not None:
            size += tensor.nbytes + scales.nbytes
            tensor = int8.dequantize(tensor, scales.squeeze(1), torch.float32)  # noqa: PLW2901
        state[name].copy_(tensor)
    _rounding_inputs(model, through_int8)
    return size


def with_weights(model: Module, folder: Path) -> int:
    """Linear layers as a GPTQ checkpoint has them: 4 bits, a scale for each group of 128."""
    tensors = {
        name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()
    }
    size = 0
    for name, layer in _linears(model):
        parts = {part: tensors[f"{name}.{part}"] for part in ("qweight", "qzeros", "scales", "g_idx")}
        layer.weight.data = unpacked(parts)
        size += parts["qweight"].nbytes + parts["scales"].nbytes
    return size


def float16(model: Module) -> int:
    """As it was loaded."""
    return sum(2 * math.prod(layer.weight.shape) for _, layer in _linears(model))


METHODS: dict[str, Callable[[Module], int]] = {
    "float16": float16,
    "fp8": fp8,
    "ifq": _each(_packed(8)),
    "ifq_nf4": _each(_packed(4)),
    "INT4, blocks of 64, symmetric": _each(_grid(torch.arange(-7, 8) / 7)),
    "INT4, blocks of 64, 16 even levels": _each(_grid(torch.linspace(-1, 1, 16))),
    "W8A8 without smoothing": plain_w8a8,
}
