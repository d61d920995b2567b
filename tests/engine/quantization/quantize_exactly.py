"""Runs inside the serving image: compares the quantizers with a plain search in float64, over random shapes.

Usage: quantize_exactly.py CASES     Prints the cases that differ as a line of JSON.
"""

import json
import sys

import torch
from windlass.engine.quantization import int8, layout, nf4, packing
from windlass.engine.quantization.gptq.packing import packed, unpacked
from windlass.engine.quantization.gptq.solve import GROUP, LARGEST, ZERO, nearest, solve
from windlass.engine.quantization.product import quantized_linear
from windlass.engine.quantization.smoothquant import layers
from windlass.engine.quantization.smoothquant.layers import Group, ScaleTarget
from windlass.engine.quantization.smoothquant.search import Choice, Heads, choose, through_int8

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


def pairs_are_the_codes(weight: torch.Tensor) -> bool:
    """Two weights looked up at once are what each is alone, to the bit."""
    packed = layout.pack(weight, 4)
    alone = nf4.dequantize(*layout.codes(packed, 4))
    return torch.equal(layout.unpack(packed, 4, torch.float16).view(torch.int16), alone.view(torch.int16))


def shards_are_the_whole(weight: torch.Tensor, bits: int) -> bool:
    """Of two ranks each quantizes its part: rows as the whole has them; columns too, by whole blocks or own scales."""
    weight = nf4.padded(weight.float())
    whole = layout.codes(layout.pack(weight, bits), bits)
    rows = [layout.codes(layout.pack(part, bits), bits) for part in weight.tensor_split(2)]
    if not all(torch.equal(torch.cat([found[at] for found in rows if len(found[0])]), whole[at]) for at in (0, 1)):
        return False
    wide = torch.cat((weight, weight.flip(1) / 3), 1)
    parts = [layout.pack(part.contiguous(), bits) for part in wide.chunk(2, 1)]
    if bits == 4:
        found = torch.cat([layout.codes(part, bits)[0] for part in parts], 1)
        return torch.equal(found, layout.codes(layout.pack(wide, bits), bits)[0])
    found = torch.cat([layout.unpack(part, bits, torch.float32) for part in parts], 1)
    step = torch.cat([part.scales.unsqueeze(1).expand(-1, weight.shape[1]) for part in parts], 1)
    return bool(((found - wide).abs() <= 0.5001 * step).all())


def packs_like_the_whole(weight: torch.Tensor, bits: int) -> bool:
    """A block of rows at a time gives what the whole gives, in rows and in tiles, whose padding is zeros."""
    before, layout._ROWS_AT_ONCE = layout._ROWS_AT_ONCE, 48
    try:
        rows, tiles = (layout.pack(weight, bits, tiled=tiled) for tiled in (False, True))
    finally:
        layout._ROWS_AT_ONCE = before
    whole = layout.codes(layout.pack(weight, bits, tiled=False), bits)
    for one in (rows, tiles):
        found = layout.codes(one, bits)
        if not all(torch.equal(part[: len(weight)], wanted) for part, wanted in zip(found, whole, strict=True)):
            return False
    return not layout.unpack(tiles, bits, torch.float32)[len(weight) :].any()


def empty_is_like_packed(weight: torch.Tensor, bits: int) -> bool:
    """Room for kept weights has the shape of what is kept."""
    for tiled in (False, True):
        room = layout.empty(*weight.shape, bits, weight.device, tiled=tiled)
        held = layout.pack(weight, bits, tiled=tiled)
        pairs = ((room.qweight, held.qweight), (room.scales, held.scales))
        if any(one.shape != other.shape or one.dtype != other.dtype for one, other in pairs):
            return False
    return True


def smoothing_changes_nothing(heads: Heads) -> bool:
    """Before anything is rounded, the smoothed layer computes what the layer did: in float64, group by group."""
    values, hidden, wide = 2 * heads.size, 2 * heads.size * heads.sharing, 48
    outputs = {"q_proj": hidden, "k_proj": values, "v_proj": values, "o_proj": hidden}
    sizes = {f"self_attn.{name}": (rows, hidden) for name, rows in outputs.items()}
    sizes |= {"mlp.gate_proj": (wide, hidden), "mlp.up_proj": (wide, hidden), "mlp.down_proj": (hidden, wide)}
    tensors = {f"{name}.weight": torch.randn(shape) for name, shape in sizes.items()}
    tensors |= {f"{name}.weight": torch.rand(hidden) + 0.5 for name in ("input_layernorm", "post_attention_layernorm")}
    tensors["self_attn.v_proj.bias"] = torch.randn(values)
    groups = (
        Group(tuple(f"self_attn.{name}_proj" for name in "qkv"), "input_layernorm", ScaleTarget.NORM),
        Group(("self_attn.o_proj",), "self_attn.v_proj", ScaleTarget.ROWS, (0, values), heads),
        Group(("mlp.gate_proj", "mlp.up_proj"), "post_attention_layernorm", ScaleTarget.NORM),
        Group(("mlp.down_proj",), "mlp.up_proj", ScaleTarget.ROWS, (0, wide)),
    )
    scales = {group.before: torch.rand(tensors[f"{group.layers[0]}.weight"].shape[1]) + 0.5 for group in groups}
    scales["self_attn.v_proj"] = heads.largest(scales["self_attn.v_proj"])
    chosen = {before: Choice(0.5, found, 0, 0) for before, found in scales.items()}
    return _same(tensors, layers.smoothed(tensors, groups, chosen), heads, hidden)


def _same(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], heads: Heads, hidden: int) -> bool:
    x = torch.randn(5, hidden).double()

    def outputs(found: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        get = {name: tensor.double() for name, tensor in found.items()}
        normal = x * get["input_layernorm.weight"]
        values = normal @ get["self_attn.v_proj.weight"].T + get["self_attn.v_proj.bias"]
        shared = values.unflatten(1, (-1, 1, heads.size)).expand(-1, -1, heads.sharing, -1).flatten(1)
        other = x * get["post_attention_layernorm.weight"]
        up = torch.sigmoid(other @ get["mlp.gate_proj.weight"].T) * (other @ get["mlp.up_proj.weight"].T)
        return [
            normal @ get["self_attn.q_proj.weight"].T,
            normal @ get["self_attn.k_proj.weight"].T,
            shared @ get["self_attn.o_proj.weight"].T,
            up @ get["mlp.down_proj.weight"].T,
        ]

    pairs = zip(outputs(before), outputs(after), strict=True)
    return all(torch.allclose(one, other, rtol=1e-5, atol=1e-4) for one, other in pairs)


def search_is_never_worse(rows: int, columns: int) -> bool:
    """With inputs of very different reach the search gains, with equal ones it loses nothing."""
    spread = torch.ones(columns)
    spread[:: max(2, columns // 3)] = 60
    inputs, weights = torch.randn(32, columns) * spread, [torch.randn(rows, columns), torch.randn(3, columns)]
    found = choose(inputs, inputs.abs().amax(0), weights)
    exact = inputs @ weights[0].T
    plain, smooth = (
        float((through_int8(inputs / s) @ through_int8(weights[0] * s).T - exact).norm()) for s in (1, found.scales)
    )
    return found.error <= found.plain_error and (columns < 32 or rows < 32 or smooth < plain)


def gptq_without_inputs_is_the_nearest(weight: torch.Tensor) -> bool:
    """Where every input is alone in its samples, no error can be moved: each code is the nearest of its group."""
    found = nearest(weight)
    scales = found.scales.float().repeat_interleave(GROUP, 1)
    wanted = (weight.float() / scales).round().clamp(-ZERO, LARGEST - ZERO)
    return torch.equal(found.codes.float() - ZERO, wanted)


def gptq_loses_less_than_the_nearest(weight: torch.Tensor) -> bool:
    """On the inputs that it saw, which go together as a model's do."""
    columns = weight.shape[1]
    inputs = torch.randn(4 * columns, columns) @ torch.randn(columns, columns)
    exact = inputs @ weight.float().T
    errors = (
        float((inputs @ one.weight().T - exact).norm()) for one in (solve(weight, inputs.T @ inputs), nearest(weight))
    )
    return next(errors) <= next(errors)


def gptq_s_packing_is_undone(weight: torch.Tensor) -> bool:
    """The tensors of the checkpoint give the matrix that was solved for, to the bit."""
    found = nearest(weight)
    return torch.equal(unpacked(packed(found)), found.weight())


def main(cases: int) -> list[str]:
    """The names of the cases that are wrong."""
    wrong = []
    for case in range(cases):
        torch.manual_seed(case)
        rows, columns = (int(size) for size in torch.randint(1, 300, (2,)))
        weight = matrix(KINDS[case % len(KINDS)], rows, columns)
        wide = matrix(KINDS[case % len(KINDS)], 8 * (1 + rows % 8), GROUP * (1 + columns % 3))
        checks = {
            "nf4": nf4_is_nearest(weight),
            "int8": int8_is_within_half_a_step(weight),
            "packing": packing_is_undone(1 + rows % 5, 1 + columns % 5),
            "product of nf4": product_is_exact(weight, 4),
            "product of int8": product_is_exact(weight, 8),
            "pairs": pairs_are_the_codes(weight),
            "shards of nf4": shards_are_the_whole(weight, 4),
            "shards of int8": shards_are_the_whole(weight, 8),
            "blocks of nf4": packs_like_the_whole(weight, 4),
            "blocks of int8": packs_like_the_whole(weight, 8),
            "room for nf4": empty_is_like_packed(weight, 4),
            "room for int8": empty_is_like_packed(weight, 8),
            "smoothing": smoothing_changes_nothing(Heads(1 + case % 4, 16)),
            "search": search_is_never_worse(rows, columns),
            "nearest of gptq": gptq_without_inputs_is_the_nearest(wide),
            "error of gptq": gptq_loses_less_than_the_nearest(wide),
            "packing of gptq": gptq_s_packing_is_undone(wide),
        }
        wrong += [f"{name} case {case} {rows}x{columns}" for name, right in checks.items() if not right]
    return wrong


if __name__ == "__main__":
    print("RESULT " + json.dumps({"wrong": main(int(sys.argv[1]))}))
