"""Matches an adapter's tensors to those of the base. Pure; anything that matches nothing is an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass_sizing.model.lora_config import LoraConfig

from windlass.errors import ModelError

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Mapping[str, Shape]

PREFIX = "base_model.model."
LEFT, RIGHT, WHOLE = "left", "right", "whole"
PARTS = {
    ".lora_A.weight": RIGHT,
    ".lora_B.weight": LEFT,
    ".lora_A.default.weight": RIGHT,
    ".lora_B.default.weight": LEFT,
    ".lora_embedding_A": RIGHT,
    ".lora_embedding_B": LEFT,
}
WRAPPED = (".base_layer.", ".modules_to_save.default.", ".modules_to_save.")
"""What peft puts between a module and a tensor that it keeps whole."""
EMBEDDING = ".lora_embedding_"
EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "embed_in", "tok_embeddings")
HEADS = ("lm_head", "embed_out", "output")
SHOWN = 3


@dataclass(slots=True)
class Change:
    """What is done to one tensor of the base: replaced by a whole one, then `left` · `right` added."""

    tensor: str
    whole: str = ""
    left: str = ""
    right: str = ""
    is_transposed: bool = False
    """The product is stored as inputs × outputs: an embedding, or a base with fan_in_fan_out."""
    scale: float = 0.0


@dataclass(slots=True)
class _Matching:
    changes: dict[str, Change] = field(default_factory=dict)
    left_over: list[str] = field(default_factory=list)


def match(adapter: Shapes, base: Shapes, config: LoraConfig, *, tied: bool) -> dict[str, Change]:
    """Changes by the base tensor's name; ModelError with the tensor that fits nowhere."""
    matching = _Matching()
    for name in sorted(adapter):
        _place(name, base, config, matching)
    if matching.left_over:
        more = len(matching.left_over) - SHOWN
        shown = ", ".join(matching.left_over[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        raise ModelError(f"the base has no tensor for the adapter's {shown}; is it the base that it was trained on?")
    for change in matching.changes.values():
        _check(change, adapter, base, config, tied=tied)
    return matching.changes


def unlike(adapter: Shapes, base: Shapes, config: LoraConfig) -> str:
    """The first pair of tensors of one name that do not fit, as a sentence; empty when those that meet do.

    The engine renames tensors of some models, so that one without a partner proves nothing here.
    """
    matching = _Matching()
    for name in sorted(adapter):
        _place(name, base, config, matching)
    try:
        for change in matching.changes.values():
            _check(change, adapter, base, config, tied=False)
    except ModelError as error:
        return str(error)
    return ""


def _place(name: str, base: Shapes, config: LoraConfig, matching: _Matching) -> None:
    plain = name.removeprefix(PREFIX)
    for ending, part in PARTS.items():
        if plain.endswith(ending):
            target = _find(f"{plain.removesuffix(ending)}.weight", base)
            if target is None:
                break
            change = matching.changes.setdefault(target, Change(target))
            setattr(change, part, name)
            change.is_transposed = config.is_transposed or EMBEDDING in ending
            return
    else:
        for wrapping in WRAPPED:
            plain = plain.replace(wrapping, ".")
        target = _find(plain, base)
        if target is not None:
            matching.changes.setdefault(target, Change(target)).whole = name
            return
    matching.left_over.append(name)


def _find(name: str, base: Shapes) -> str | None:
    """The base's tensor; some checkpoints leave the outermost `model.` out."""
    spellings = (name, f"model.{name}", name.removeprefix("model."))
    return next((spelling for spelling in spellings if spelling in base), None)


def _check(change: Change, adapter: Shapes, base: Shapes, config: LoraConfig, *, tied: bool) -> None:
    module = change.tensor.removesuffix(".weight")
    if tied and module.rpartition(".")[2] in (*EMBEDDINGS, *HEADS):
        raise ModelError(
            f"the adapter changes {change.tensor}, which this model uses for its input and its output alike; "
            "merging would change both, so serve it by name (leave --merge-lora out)"
        )
    shape = base[change.tensor]
    if change.whole and adapter[change.whole] != shape:
        raise ModelError(_unlike(change.whole, adapter[change.whole], change.tensor, shape))
    if bool(change.left) != bool(change.right):
        raise ModelError(f"the adapter has {change.left or change.right} without its other half; save it again")
    if not change.left:
        return
    left, right = adapter[change.left], adapter[change.right]
    if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        raise ModelError(f"the adapter's {change.left} {left} and {change.right} {right} are no pair; save it again")
    product = (right[1], left[0]) if change.is_transposed else (left[0], right[1])
    if product != shape:
        raise ModelError(_unlike(f"{change.left} · {change.right}", product, change.tensor, shape))
    change.scale = config.scale((change.left.removeprefix(PREFIX)).split(".lora_")[0], left[1])


def _unlike(what: str, shape: Shape, tensor: str, other: Shape) -> str:
    return (
        f"the adapter's {what} is {_by(shape)} and the base's {tensor} is {_by(other)}; "
        "is it the base that it was trained on?"
    )


def _by(shape: Shape) -> str:
    return "×".join(map(str, shape)) or "a number"
