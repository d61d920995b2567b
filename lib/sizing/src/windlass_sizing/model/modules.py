"""Which modules a quantization names: lists of paths, globs and expressions, read by the role that modules have.

Every method has its own way to write them: whole paths for each layer, globs, `re:` expressions, parts of a name. They
are matched against the names that modules of a role have, with the layer's number taken out and counted. `quantized.py`
asks for the modules that are left plain, and for those of each format.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from windlass_sizing.model.params import ATTENTION, EXPERT, HEAD, LATENT, MIXER, MLP, OUTPUT, SHARED, TOWER

Families = tuple[tuple[str, ...], ...]

# For each role, the families of names: a share is taken within the family that fits best.
NAMES: dict[str, Families] = {
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
        ("residual_mlp.w1", "residual_mlp.w2", "residual_mlp.w3"),
    ),
    EXPERT: (
        ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"),
        ("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
        ("feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"),
        ("block_sparse_moe.experts.0.w1", "block_sparse_moe.experts.0.w2", "block_sparse_moe.experts.0.w3"),
        ("mixer.experts.0.up_proj", "mixer.experts.0.down_proj"),
    ),
    LATENT: (
        ("mixer.fc1_latent_proj", "mixer.fc2_latent_proj"),
        ("block_sparse_moe.routed_expert_down_proj", "block_sparse_moe.routed_expert_up_proj"),
    ),
    SHARED: (
        ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"),
        ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"),
        ("feed_forward.shared_expert.gate_proj",),
        ("mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj"),
        ("block_sparse_moe.shared_experts.gate_proj", "block_sparse_moe.shared_experts.down_proj"),
        ("shared_mlp.input_linear", "shared_mlp.output_linear"),
        ("share_expert.gate_proj", "share_expert.up_proj", "share_expert.down_proj"),
    ),
    MIXER: (
        ("linear_attn.in_proj_qkvz", "linear_attn.out_proj"),
        ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"),
        ("mixer.in_proj", "mixer.out_proj"),
        ("mamba.in_proj", "mamba.out_proj"),
    ),
}
OF_TYPE: dict[str, dict[str, Families]] = {
    "gemma4_text": {EXPERT: (("experts.gate_up_proj",), ("experts.0.gate_proj",))},
    "arctic": {EXPERT: (("block_sparse_moe.experts.0.w1",),)},
    "kimi_linear": {EXPERT: (("block_sparse_moe.experts.0.w1",),), MIXER: (("self_attn.q_proj", "self_attn.o_proj"),)},
    "step3_text": {EXPERT: (("moe.gate_proj", "moe.down_proj"),)},
    "step3p5": {EXPERT: (("moe.gate_proj", "moe.down_proj"),)},
}
"""Names that a `model_type` has where others of the table are those of another part of it, as a dense MLP's."""
TOWER_NAMES = (
    ("visual.blocks.0.attn.qkv",),
    ("vision_tower.encoder.layers.0.mlp.fc1",),
    ("vision_model.encoder.layers.0.mlp.fc1",),
    ("vision_backbone.image_vit.blocks.0",),
    ("audio_tower.layers.0.fc1",),
)
HEAD_NAMES = (("lm_head",), ("output",))
LAYER = re.compile(r"(?:^|.*\.)(?:layers|h|blocks)\.(\d+)(?=\.|\*|$)")
Matcher = Callable[[str], bool]
REPEATED_GROUP = re.compile(r"\)[*+{]")
REPEATS = re.compile(r"[*+{]")
REPEATS_MAX = 6  # a name of 40 characters is tried in 40^6/6! ways at most, some hundredths of a second
PATTERNS_MAX = 4096  # the longest published lists have some hundreds, their layers' numbers taken out
PATTERN_LENGTH_MAX = 512
FIRST = "layers.0."
BEFORE = re.compile(r"^(?:(?:model|language_model|text_model|backbone|transformer|llm)\.)+")
"""Names of the parts around a decoder, in the paths that lists give."""
PREFIXES = ("model.", "model.language_model.", "")
"""Before the names here, in those that an expression may speak of from their beginning."""
BELOW = r"(?:\.|$)"
EVERY = -1  # a pattern that names no layer means all of them
ANYWHERE = frozenset({0})  # the layers of a role that has none
OTHER_EXPERT = re.compile(r"\.experts\.[1-9]")  # the first expert stands for all
BY_LAYER_MAX = 4096  # searches by one expression: it is tried on every layer where it speaks of layers by number


class Modules:
    """The modules that a list of patterns names; ValueError for more than any published list has.

    A path names what lies below it too, but for `exact` ones.
    """

    def __init__(self, patterns: Iterable[str], *, exact: bool = False) -> None:
        self._exact = exact
        self._layers: dict[str, set[int]] = defaultdict(set)
        for pattern in patterns:
            if not OTHER_EXPERT.search(pattern):
                number, plain = _without_layer(pattern)
                self._layers[plain].add(number)
        if len(self._layers) > PATTERNS_MAX or any(len(pattern) > PATTERN_LENGTH_MAX for pattern in self._layers):
            raise ValueError(f"its quantization names more than {PATTERNS_MAX} patterns of modules, or a longer one")

    def layers_of(self, name: str, places: frozenset[int]) -> frozenset[int]:
        """The layers, of these, in which the module of this name is one."""
        found = set[int]()
        for pattern, numbers in self._layers.items():
            if _numbers_layers(pattern):
                found |= _by_layer(pattern, name, places)
            elif _compiled(pattern, self._exact)(name):
                found |= numbers
            if EVERY in found:
                return places
        return places & found


def shares(
    left_out: Modules, formats: Sequence[Modules | None], places: Mapping[str, frozenset[int]], model_type: str = ""
) -> dict[str, tuple[float, ...]]:
    """Of each role, the share that each format takes, first to last; None takes what is left.

    `places` says which layers have the role.
    """
    names = NAMES | OF_TYPE.get(model_type, {})
    decoder = {role: _in_first_layer(families) for role, families in names.items()}
    return {
        role: _shares(families, left_out, formats, places.get(role) or ANYWHERE)
        for role, families in (decoder | {TOWER: TOWER_NAMES, HEAD: HEAD_NAMES}).items()
    }


def _in_first_layer(families: Families) -> Families:
    return tuple(tuple(f"{FIRST}{name}" for name in names) for names in families)


def _shares(
    families: Families,
    left_out: Modules,
    formats: Sequence[Modules | None],
    places: frozenset[int],
) -> tuple[float, ...]:
    """By the family of names that is named most: a model has the modules of one of them."""
    best, most = (0.0,) * len(formats), -1
    for names in families:
        taken, named = [0] * len(formats), 0
        for name in names:
            left = places - left_out.layers_of(name, places)
            named += len(places) - len(left)
            for index, modules in enumerate(formats):
                found = left if modules is None else left & modules.layers_of(name, places)
                named += len(found) if modules else 0
                taken[index] += len(found)
                left -= found
        if named > most:
            best, most = tuple(count / (len(names) * len(places)) for count in taken), named
    return best


def _without_layer(pattern: str) -> tuple[int, str]:
    """The layer that a plain path names, and the path as if it were layer 0 of any model."""
    found = None if pattern.startswith("re:") else LAYER.match(pattern)
    if not found or re.search(r"visual|vision|audio|mtp", pattern):
        return EVERY, pattern
    return int(found[1]), "layers.0" + pattern[found.end() :]


def _numbers_layers(pattern: str) -> bool:
    """Whether an expression tells layers apart: `re:model\\.layers\\.(0|1)\\..*`."""
    return pattern.startswith("re:") and re.search(r"(?:layers|h|blocks)\\?\.[(\[\d]", pattern) is not None


def _by_layer(pattern: str, name: str, places: frozenset[int]) -> set[int]:
    if len(places) > BY_LAYER_MAX:
        return set()
    matches = _compiled(pattern)
    return {number for number in places if matches(f"layers.{number}.{name.removeprefix(FIRST)}")}


@lru_cache(PATTERNS_MAX)
def _compiled(pattern: str, exact: bool = False) -> Matcher:
    """Whether a pattern names a module's path; a broken or costly expression names none."""
    if pattern.startswith("re:"):
        return _expression(pattern[3:])
    first, *others = BEFORE.sub("", pattern).split("*")
    if others:
        return lambda name: _in_turn((first, *others), name)
    whole = re.compile(rf"(?:^|\.){re.escape(first)}{'$' if exact else BELOW}")
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
    return lambda name: any(expression.search(f"{prefix}{name}") for prefix in PREFIXES)
