"""Which nodes of a graph are a norm or a gated SiLU in front of a product of ours, and the operator in their place.

vLLM's norms are operators of its own in the graph. A gated SiLU is what torch makes of `silu(x[..., :d]) * x[..., d:]`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from vllm.ir import ops

from windlass.engine.quantization.fp8.product import X_TYPES, fp8_linear
from windlass.engine.quantization.product import quantized_linear

_OPERATORS = torch.ops.windlass
_PRODUCTS = {fp8_linear: "fp8_linear", quantized_linear: "quantized_linear"}  # their others are named after them
_VECTOR = 8  # numbers that a thread of the kernel in front reads at once: columns are whole ones
_NORM, _ADD_NORM = ops.rms_norm.torch_op, ops.fused_add_rms_norm.torch_op
_CONVERT = torch.ops.prims.convert_element_type.default
_SLICE, _MULTIPLY = torch.ops.aten.slice.Tensor, torch.ops.aten.mul.Tensor


def fuse(graph: fx.Graph) -> int:
    """Put every norm and gated SiLU that only a product of ours reads into its operator; how many."""
    products = [node for node in graph.nodes if node.target in _PRODUCTS and _can_move(node)]
    fused = sum(any(way(graph, node) for way in _WAYS) for node in products)
    if fused:
        graph.eliminate_dead_code()
    return fused


def _can_move(node: fx.Node) -> bool:
    """Whether the product may stand where its x is made: it is the only one to read x, and weights are inputs."""
    x, *rest = node.args
    weights = [one for one in rest if not isinstance(one, int | None)]
    is_first = all(isinstance(one, fx.Node) and one.op in ("placeholder", "get_attr") for one in weights)
    return isinstance(x, fx.Node) and len(x.users) == 1 and is_first and _is_matrix(x)


def _norm(graph: fx.Graph, node: fx.Node) -> bool:
    normed, *weights = node.args
    if not isinstance(normed, fx.Node) or normed.target is not _NORM or not normed.args:
        return False
    x, gain, epsilon = _norm_words(normed, 1)
    if not _fits(normed, gain):
        return False
    with graph.inserting_before(normed):
        call = _after(node, "norm")
        _replace(node, graph.call_function(call, (x, gain, epsilon, *weights)))
    return True


def _add_norm(graph: fx.Graph, node: fx.Node) -> bool:
    first, *weights = node.args
    if not isinstance(first, fx.Node) or first.target is not operator.getitem or first.args[1] != 0:
        return False
    normed = first.args[0]
    if not isinstance(normed, fx.Node) or normed.target is not _ADD_NORM or len(normed.args) < 2:
        return False
    x, residual, gain, epsilon = _norm_words(normed, 2)
    if not _fits(first, gain) or not _is_matrix(residual) or not _is_alike(x, residual):
        return False
    with graph.inserting_before(normed):
        call = _after(node, "add_norm")
        both = graph.call_function(call, (x, residual, gain, epsilon, *weights))
        both.meta["val"] = (node.meta["val"], residual.meta["val"])
        out, total = (graph.call_function(operator.getitem, (both, at)) for at in (0, 1))
        total.meta["val"] = residual.meta["val"]
        _replace(node, out)
    for user in [user for user in normed.users if user.args[1] == 1]:
        user.replace_all_uses_with(total)
    return True


def _silu(graph: fx.Graph, node: fx.Node) -> bool:
    gated, *weights = node.args
    if not isinstance(gated, fx.Node) or (x := gated_of(gated)) is None:
        return False
    with graph.inserting_before(gated):
        call = _after(node, "silu")
        _replace(node, graph.call_function(call, (x, *weights)))
    return True


def _after(node: fx.Node, front: str) -> Callable[..., Any]:
    """The operator of the same product behind something."""
    call: Callable[..., Any] = getattr(_OPERATORS, f"{_PRODUCTS[node.target]}_after_{front}").default
    return call


_WAYS: tuple[Callable[[fx.Graph, fx.Node], bool], ...] = (_norm, _add_norm, _silu)


def gated_of(node: fx.Node) -> fx.Node | None:
    """The x of which a node is `silu(x[:, :d]) * x[:, d:]`, d being half of its columns."""
    if node.target is not _MULTIPLY or len(node.args) != 2:
        return None
    gate, up = (_unconverted(one) for one in node.args)
    half = _silu_of(gate) if isinstance(gate, fx.Node) else None
    if not (isinstance(half, fx.Node) and isinstance(up, fx.Node) and half.target is up.target is _SLICE):
        return None
    x = half.args[0]
    if not isinstance(x, fx.Node) or x is not up.args[0] or not _is_matrix(x):
        return None
    columns = x.meta["val"].shape[1]
    bounds = *half.args[1:], *up.args[1:]  # dimension, start and end of both
    if not isinstance(columns, int) or len(bounds) != 6 or not all(isinstance(bound, int) for bound in bounds):
        return None
    middle = columns // 2
    if middle % _VECTOR:
        return None
    return x if bounds[:5] == (1, 0, middle, 1, middle) and bounds[5] >= columns == 2 * middle else None


def _silu_of(node: fx.Node) -> Any:  # noqa: ANN401 - a node or a number
    """What a node is SiLU of: a / (1 + exp(-a)), or a times its sigmoid."""
    aten = torch.ops.aten
    if node.target is aten.div.Tensor:
        value, below = node.args
        parts = (aten.add.Tensor, aten.exp.default, aten.neg.default)
        for at, target in enumerate(parts):
            if not isinstance(below, fx.Node) or below.target is not target or (at == 0 and below.args[1] != 1):
                return None
            below = below.args[0]
        return _unconverted(value) if below is value else None
    if node.target is _MULTIPLY and len(node.args) == 2:
        value, factor = node.args
        is_sigmoid = isinstance(factor, fx.Node) and factor.target is aten.sigmoid.default and factor.args[0] is value
        return _unconverted(value) if is_sigmoid else None
    return None


def _unconverted(node: Any) -> Any:  # noqa: ANN401 - a node or a number
    while isinstance(node, fx.Node) and node.target is _CONVERT:
        node = node.args[0]
    return node


def _norm_words(node: fx.Node, tensors: int) -> list[Any]:
    """The norm's tensors, its gain and epsilon; no gain if it looks at a part of the columns, or has none."""
    words = dict(zip(("gain", "epsilon", "part"), node.args[tensors:], strict=False))
    named = {"gain": "weight", "epsilon": "epsilon", "part": "variance_size"}
    words |= {name: node.kwargs[other] for name, other in named.items() if other in node.kwargs}
    gain = words.get("gain") if words.get("part") is None else None
    return [*node.args[:tensors], gain, words.get("epsilon")]


def _fits(normed: fx.Node, gain: Any) -> bool:  # noqa: ANN401 - a node or None
    """Whether the norm has a gain of its own type, which stands before it."""
    while isinstance(gain, fx.Node) and gain.target is torch.ops.aten.alias.default:
        gain = gain.args[0]
    if not isinstance(gain, fx.Node) or gain.op not in ("placeholder", "get_attr"):
        return False
    value: torch.Tensor = gain.meta["val"]
    made = normed.meta["val"]
    return bool(value.dtype == made.dtype and value.shape == made.shape[1:])


def _is_matrix(node: Any) -> bool:  # noqa: ANN401 - a node or a number
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.dim() != 2 or value.dtype not in X_TYPES:
        return False
    return isinstance(value.shape[1], int) and value.shape[1] % _VECTOR == 0


def _is_alike(one: Any, other: fx.Node) -> bool:  # noqa: ANN401 - a node or a number
    return _is_matrix(one) and bool(one.meta["val"].dtype == other.meta["val"].dtype)


def _replace(node: fx.Node, other: fx.Node) -> None:
    other.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(other)
