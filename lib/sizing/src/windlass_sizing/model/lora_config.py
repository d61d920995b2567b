"""What `adapter_config.json` says, and why an adapter could not be served by name or be merged. Pure.

The rules for serving are those of the pinned engine's own check (`vllm.lora.peft_helper`), asked before it starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Config: TypeAlias = Mapping[str, object]

FILE = "adapter_config.json"
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What the engine takes as --max-lora-rank."""
CLASSIFIERS = ("classifier", "score")
"""Whole modules that the engine takes from an adapter."""
HARMLESS_STARTS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
"""Values of init_lora_weights that leave the base's weights as they are."""


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """The numbers that a merge needs."""

    rank: int
    alpha: float
    is_rank_stabilized: bool = False
    is_transposed: bool = False
    """fan_in_fan_out: the base keeps these weights as inputs × outputs."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    alphas: Mapping[str, float] = field(default_factory=dict)
    """Exceptions, by the end of a module's name as peft matches it."""

    @property
    def largest_rank(self) -> int:
        """Of all modules."""
        return max([self.rank, *self.ranks.values()])

    def scale(self, module: str, rank: int) -> float:
        """The factor of B·A for one module; `rank` is that of its tensors."""
        alpha = next((value for key, value in self.alphas.items() if _is_end(key, module)), self.alpha)
        return alpha / (math.sqrt(rank) if self.is_rank_stabilized else rank)


def _is_end(pattern: str, module: str) -> bool:
    return re.fullmatch(rf"(.*\.)?({pattern})", module) is not None


def read(config: Config) -> LoraConfig | str:
    """The numbers, or what is wrong with them."""
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if (kind := str(config.get("peft_type") or "LORA").upper()) != "LORA":
        return f"is a {kind} adapter; only LoRA can be served"
    if not _is_rank(rank):
        return f"has no usable rank (r is {rank}); save the adapter again"
    if not isinstance(alpha, int | float) or isinstance(alpha, bool):
        return f"has no usable lora_alpha ({alpha}); save the adapter again"
    ranks, alphas = config.get("rank_pattern") or {}, config.get("alpha_pattern") or {}
    if not isinstance(ranks, dict) or not isinstance(alphas, dict) or not all(map(_is_rank, ranks.values())):
        return "has a rank_pattern or alpha_pattern that cannot be understood; save the adapter again"
    stable, transposed = bool(config.get("use_rslora")), bool(config.get("fan_in_fan_out"))
    return LoraConfig(int(str(rank)), float(alpha), stable, transposed, ranks, alphas)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _changes_base(config: Config) -> bool:
    start = config.get("init_lora_weights", True)
    return isinstance(start, str) and start.lower() not in HARMLESS_STARTS


def _whole_modules(config: Config) -> list[str]:
    saved = config.get("modules_to_save")
    return [str(name) for name in saved if name not in CLASSIFIERS] if isinstance(saved, list) else []


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of adapter that the engine refuses; `can_merge` when merging it is right all the same."""

    applies: Callable[[Config], object]
    words: str
    can_merge: bool = False


MERGE_IT = "merge it instead (--merge-lora)"
BY_PEFT = "merge it with peft's merge_and_unload and serve the result"
RULES = (
    Rule(lambda c: c.get("use_dora"), f"is a DoRA adapter, which the engine cannot serve; {BY_PEFT}"),
    Rule(lambda c: c.get("use_qalora"), f"is a QALoRA adapter, which the engine cannot serve; {BY_PEFT}"),
    Rule(lambda c: c.get("use_bdlora"), f"is a block-diagonal LoRA, which the engine cannot serve; {BY_PEFT}"),
    Rule(
        lambda c: c.get("alora_invocation_tokens"),
        "is an Activated LoRA, which the engine cannot serve; train it as plain LoRA",
    ),
    Rule(
        lambda c: c.get("layer_replication"), f"repeats layers (layer_replication), which the engine cannot; {BY_PEFT}"
    ),
    Rule(lambda c: c.get("lora_bias"), f"has a bias in its matrices (lora_bias), which the engine cannot; {BY_PEFT}"),
    Rule(
        _changes_base,
        "changed the base's weights when training began (init_lora_weights); "
        "save it with path_initial_model_for_weight_conversion as a plain LoRA",
    ),
    Rule(
        _whole_modules,
        f"holds whole modules (modules_to_save) that the engine cannot take by name; {MERGE_IT}",
        can_merge=True,
    ),
    Rule(
        lambda c: c.get("bias", "none") != "none",
        f"has trained biases, which the engine cannot take by name; {MERGE_IT}",
        can_merge=True,
    ),
)


def problems(config: Config) -> tuple[str, str]:
    """Why it cannot be served by name, and why it cannot be merged; empty where it can."""
    numbers = read(config)
    if isinstance(numbers, str):
        return numbers, numbers
    refused = [rule for rule in RULES if rule.applies(config)]
    by_name = refused[0].words if refused else ""
    if not by_name and numbers.largest_rank > RANKS[-1]:
        by_name = f"has rank {numbers.largest_rank}, and the engine takes at most {RANKS[-1]}; {MERGE_IT}"
    return by_name, next((rule.words for rule in refused if not rule.can_merge), "")


def engine_rank(rank: int) -> int:
    """The smallest of the engine's ranks that holds this one."""
    return next(allowed for allowed in RANKS if allowed >= rank)
