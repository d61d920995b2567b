"""Which weights a quantization leaves as they are: lists of module names, patterns and expressions, read by role.

Every method has its own way to write them: whole paths for each layer, globs, `re:` expressions, parts of a name. They
are matched against the names that modules of a role have, with the layer's number taken out and counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from windlass_sizing.model.params import ATTENTION, EXPERT, MIXER, MLP, OUTPUT, SHARED, TOWER

# For each role, the families of names: a share is taken within the family that fits best.
NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    ATTENTION: (
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        ("self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj"),
        ("self_attn.qkv_proj",),
        ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj"),
        ("attention.wqkv",),
        ("attn.c_attn",),
        ("attn.qkv",),
    ),
    OUTPUT: (("self_attn.o_proj",), ("mixer.o_proj",), ("attention.wo",), ("attn.c_proj",)),
    MLP: (
        ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
        ("feed_forward.w1", "feed_forward.w2", "feed_forward.w3"),
        ("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"),
        ("mlp.gate_up_proj", "mlp.down_proj"),
        ("mixer.up_proj", "mixer.down_proj"),
    ),
    EXPERT: (
        ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"),
        ("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
        ("feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"),
        ("block_sparse_moe.experts.0.w1", "block_sparse_moe.experts.0.w2", "block_sparse_moe.experts.0.w3"),
        ("mixer.experts.0.up_proj", "mixer.experts.0.down_proj"),
    ),
    SHARED: (
        ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"),
        ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"),
        ("feed_forward.shared_expert.gate_proj",),
        ("mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj"),
    ),
    MIXER: (
        ("linear_attn.in_proj_qkvz", "linear_attn.out_proj"),
        ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"),
        ("mixer.in_proj", "mixer.out_proj"),
        ("mamba.in_proj", "mamba.out_proj"),
    ),
}
TOWER_NAMES = (
    ("visual.blocks.0.attn.qkv",),
    ("vision_tower.encoder.layers.0.mlp.fc1",),
    ("vision_model.encoder.layers.0.mlp.fc1",),
    ("vision_backbone.image_vit.blocks.0",),
    ("audio_tower.layers.0.fc1",),
)
LAYER = re.compile(r"(?:^|.*\.)(?:layers|h|blocks)\.(\d+)(?=\.|\*|$)")
Matcher = Callable[[str], bool]
REPEATED_GROUP = re.compile(r"\)[*+{]")
REPEATS = re.compile(r"[*+{]")
REPEATS_MAX = 6  # a name of 40 characters is tried in 40^6/6! ways at most, some hundredths of a second
PATTERNS_MAX = 4096  # the longest published lists have some hundreds, their layers' numbers taken out
PATTERN_LENGTH_MAX = 512
EVERY = -1  # a pattern that names no layer means all of them


def plain_shares(patterns: list[str], places: Mapping[str, frozenset[int]]) -> dict[str, float]:
    """The share of each role that these patterns leave plain; `places` says which layers have the role."""
    by_pattern: dict[str, set[int]] = defaultdict(set)
    for pattern in patterns:
        number, plain = _without_layer(pattern)
        by_pattern[plain].add(number)
    if len(by_pattern) > PATTERNS_MAX or any(len(pattern) > PATTERN_LENGTH_MAX for pattern in by_pattern):
        raise ValueError(f"its quantization leaves out more than {PATTERNS_MAX} patterns of modules, or a longer one")
    shares = {role: _share(families, by_pattern, places.get(role, frozenset())) for role, families in _families()}
    return {role: share for role, share in shares.items() if share > 0}


def roles_of(targets: list[str]) -> set[str]:
    """The roles that a group's targets name."""
    return set(plain_shares(targets, {}))


def _families() -> list[tuple[str, tuple[tuple[str, ...], ...]]]:
    decoder = [
        (role, tuple(tuple(f"layers.0.{one}" for one in names) for names in rows)) for role, rows in NAMES.items()
    ]
    return [*decoder, (TOWER, TOWER_NAMES)]


def _without_layer(pattern: str) -> tuple[int, str]:
    """The layer that a plain path names, and the path as if it were layer 0 of any model."""
    found = None if pattern.startswith("re:") else LAYER.match(pattern)
    if not found or re.search(r"visual|vision|audio|mtp", pattern):
        return EVERY, pattern
    return int(found[1]), "layers.0" + pattern[found.end() :]


def _share(families: tuple[tuple[str, ...], ...], patterns: dict[str, set[int]], places: frozenset[int]) -> float:
    best = 0.0
    for names in families:
        covered = [_covered(name, patterns, places) for name in names]
        best = max(best, sum(covered) / len(covered))
    return best


def _covered(name: str, patterns: dict[str, set[int]], places: frozenset[int]) -> float:
    named = set[int]().union(*(numbers for pattern, numbers in patterns.items() if _compiled(pattern)(name)))
    if EVERY in named:
        return 1.0
    return len(named & places) / len(places) if places else 0.0


@lru_cache(PATTERNS_MAX)
def _compiled(pattern: str) -> Matcher:
    """Whether a pattern names a module's path; a broken or costly expression names none."""
    if pattern.startswith("re:"):
        return _expression(pattern[3:])
    first, *others = pattern.removeprefix("model.").removeprefix("language_model.").split("*")
    if others:
        return lambda name: _in_turn((first, *others), name)
    whole = re.compile(rf"(?:^|\.){re.escape(first)}(?:\.|$)")
    return lambda name: whole.search(name) is not None


def _in_turn(parts: Iterable[str], name: str) -> bool:
    """Whether the name holds the parts of a glob in turn; an expression of as many stars may try for hours."""
    place = 0
    for part in parts:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True


def _expression(text: str) -> Matcher:
    """The expression where its time is bounded: no group is repeated, and few things are."""
    if REPEATED_GROUP.search(text) or len(REPEATS.findall(text)) > REPEATS_MAX:
        return lambda _: False
    try:
        expression = re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return lambda _: False
    return lambda name: expression.search(name) is not None
