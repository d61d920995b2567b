"""Counting parameters from a model's shape, by the role that they have.

Matrices and two norms a layer: further norms and biases are under 0.1 % of any model that needs a GPU. The roles are
those that quantization tells apart: what is packed, what stays as it is. Arithmetic on plain numbers; `shape.py`
reads them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from windlass_sizing.model.layers import BOTH, CROSS, DENSE, EXPERTS, FULL, NONE, STATE, WINDOW, Layer
from windlass_sizing.model.mixers import Latent, Mixer, latent_inputs

EMBEDDING, HEAD, NORM, ROUTER, TOWER = "embedding", "head", "norms", "router", "vision or audio"
ATTENTION, OUTPUT, MIXER = "attention", "attention output", "state mixer"
MLP, EXPERT, SHARED, LATENT = "mlp", "experts", "shared experts", "projections of narrow experts"
LINEAR = (ATTENTION, OUTPUT, MIXER, MLP, EXPERT, SHARED, LATENT)  # what a quantization method packs


@dataclass(frozen=True, slots=True)
class Attention:
    """The sizes of an attention; layers with a window may have others than those without."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    gated: bool = False  # a gate as large as the queries
    keys_are_values: bool = False
    latent: Latent | None = None
    counted: tuple[int, int] | None = None  # weights of inputs and output, where they are not these matrices

    @property
    def kv_values(self) -> int:
        """Values that a token leaves in the cache for each KV head."""
        return self.head_dim + self.value_dim


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder."""

    hidden: int
    layers: tuple[Layer, ...]
    vocab: int
    base: Attention
    full: Attention
    window: Attention
    intermediate: int  # of a plain MLP
    gated: bool = True
    tied: bool = False
    experts: int = 0
    expert_width: int = 0  # intermediate size of all experts of a layer together
    shared_width: int = 0
    expert_hidden: int = 0  # what experts read and write, where it is narrower than `hidden`; 0: as hidden
    state: Mixer = field(default_factory=lambda: Mixer(0))
    embedding_dim: int = 0  # 0: as hidden
    beside: int = 0  # positions, per-layer embeddings: looked up, not multiplied
    layer_extra: int = 0  # small matrices that every layer has beside mixer and MLP
    dense_beside_experts: bool = False
    compressed_layers: int = 0  # as many whole layers as compressed rows of the context amount to
    twin: bool = False  # every layer has two attentions and two MLPs around its experts
    own_layers: int = 0  # layers with weights, where others run the same ones again; 0: all
    unrouted: int = 0  # experts that a router knows and that have no weights


def count_params(shape: Shape) -> Counter[str]:
    """All parameters of the decoder by role; tied tensors once."""
    table = shape.vocab * (shape.embedding_dim or shape.hidden)
    norms = (2 * len(shape.layers) + 1) * shape.hidden
    repeats = len(shape.layers) / (shape.own_layers or len(shape.layers))
    found = Counter({EMBEDDING: table + shape.beside, HEAD: 0 if shape.tied else table, NORM: norms})
    for layer, times in Counter(shape.layers).items():
        for role, params in (_mixer(shape, layer) + _mlp(shape, layer)).items():
            found[role] += round(params * times / repeats)
        found[MLP] += shape.layer_extra * times
    return found


def _mixer(shape: Shape, layer: Layer) -> Counter[str]:
    if layer.mixer == NONE:
        return Counter()
    if layer.mixer == STATE:
        return Counter({MIXER: shape.state.params})
    attention = shape.window if layer.mixer == WINDOW else shape.full
    found = _attention(shape.hidden, attention, layer)
    if shape.twin:
        found += found
    return found + Counter({MIXER: shape.state.params}) if layer.mixer == BOTH else found


def _attention(hidden: int, attention: Attention, layer: Layer) -> Counter[str]:
    if attention.counted:
        return Counter({ATTENTION: attention.counted[0], OUTPUT: attention.counted[1]})
    if attention.latent:
        output = attention.heads * attention.latent.value_dim * hidden
        return Counter({ATTENTION: latent_inputs(attention.latent, hidden, attention.heads), OUTPUT: output})
    queries = hidden * attention.heads * attention.head_dim * (2 if attention.gated else 1)
    kept = attention.head_dim + (0 if attention.keys_are_values else attention.value_dim)
    keys_values = 0 if layer.shares_kv else hidden * (layer.kv_heads or attention.kv_heads) * kept
    return Counter({ATTENTION: queries + keys_values, OUTPUT: attention.heads * attention.value_dim * hidden})


def _mlp(shape: Shape, layer: Layer) -> Counter[str]:
    plain = _matrices(shape, layer.intermediate or shape.intermediate)
    if layer.mlp == DENSE:
        return Counter({MLP: plain})
    if layer.mlp != EXPERTS:
        return Counter()
    beside = plain * (2 if shape.twin else 1 if shape.dense_beside_experts else 0)
    return Counter(
        {
            MLP: beside,
            EXPERT: _matrices(shape, shape.expert_width, shape.expert_hidden),
            LATENT: 2 * shape.hidden * shape.expert_hidden,
            SHARED: _matrices(shape, shape.shared_width),
            ROUTER: shape.hidden * (shape.experts + shape.unrouted),
        }
    )


def _matrices(shape: Shape, width: int, hidden: int = 0) -> int:
    return (3 if shape.gated else 2) * (hidden or shape.hidden) * width


def places(shape: Shape) -> dict[str, frozenset[int]]:
    """Which layers have each role, by number."""
    numbered = list(enumerate(shape.layers))
    attending = frozenset(index for index, layer in numbered if layer.mixer not in (STATE, NONE))
    states = frozenset(index for index, layer in numbered if layer.mixer in (STATE, BOTH))
    experts = frozenset(index for index, layer in numbered if layer.mlp == EXPERTS)
    dense = frozenset(index for index, layer in numbered if layer.mlp == DENSE)
    beside = experts if shape.twin or shape.dense_beside_experts else frozenset[int]()
    by_role = {ATTENTION: attending, OUTPUT: attending, MIXER: states, MLP: dense | beside}
    return by_role | dict.fromkeys((EXPERT, SHARED, LATENT, ROUTER), experts)


def kv_keeping(shape: Shape) -> tuple[int, int]:
    """How many layers keep keys and values of the whole context, and of a window of it."""
    own = [layer.mixer for layer in shape.layers if not layer.shares_kv and layer.mixer != CROSS]
    full = sum(mixer in (FULL, BOTH) for mixer in own) * (2 if shape.twin else 1)
    return full + shape.compressed_layers, own.count(WINDOW)
