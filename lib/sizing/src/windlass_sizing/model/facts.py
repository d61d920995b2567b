"""What the formula needs to know of a model, read from its config.json.

The inspect Job makes `ModelFacts` and prints them; the operator and `windlass plan` read them back. Real bytes of the
checkpoint, where they are known, win over what is counted from the configuration. No I/O here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import PurePosixPath
from typing import Any

from windlass_sizing.errors import FactsError
from windlass_sizing.model.architectures import ARCHITECTURES, UNCOUNTED, USUAL, Architecture, has_head
from windlass_sizing.model.dtypes import dtype_bytes
from windlass_sizing.model.keys import SPELLINGS
from windlass_sizing.model.layers import BOTH, DENSE, EXPERTS, STATE
from windlass_sizing.model.mixers import compression_ratios, read_latent
from windlass_sizing.model.own_context import own_context
from windlass_sizing.model.params import EMBEDDING, HEAD, LINEAR, TOWER, Shape, count_params, kv_keeping, places
from windlass_sizing.model.plausible import limit_of, must_be_plausible, shown
from windlass_sizing.model.quantized import Packing, nominal, packing_of
from windlass_sizing.model.settings import Settings, library, text_settings, unread
from windlass_sizing.model.shape import read_shape
from windlass_sizing.model.towers import tower_params

PLAIN_NEAR = 0.05  # a draft head or a stored copy of the embedding makes files this much larger than the model
PACKED_NEAR = 0.4
PLAIN_BYTES = 2  # of a weight that a quantized checkpoint leaves as it is
STATE_VALUE_BYTES = 4
TEXT_MAX = 256
UNREAD_SHOWN = 4
NEVER_ZERO = (
    *("params", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("vocab_size", "max_model_len"),
)
# What a value of the wrong kind or size raises, wherever it is used: `"hidden_size": {}`, 10 to the power of 400.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
KINDS: Mapping[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, f"a printable text of at most {TEXT_MAX} characters"),
    "bool": (bool, "true or false"),
}
INSIDE_WORDS = 'a path inside the volume, relative and without ".."'


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model, as the memory formula sees it."""

    architecture: str
    model_type: str
    params: int
    params_how: str
    weights_bytes: int | None  # of the checkpoint's weight files; None when only config.json is known
    stored_dtype: str | None
    quantization: str | None  # the checkpoint's own method (gptq, awq, fp8 …); None for plain weights
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_model_len: int  # the model's own; the engine's default where it knows none
    quantization_bits: float | None = None
    intermediate_size: int | None = None
    embedding_params: int = 0  # token embedding and output head: online quantization leaves them alone
    kv_layers: int = 0  # layers that keep keys and values of the whole context
    window_layers: int = 0  # layers that keep only `window` tokens
    window: int | None = None
    latent_kv_dim: int | None = None  # multi-head latent attention: values a token and layer, on every rank
    num_experts: int | None = None
    multimodal: bool = False
    linear_params: int | None = None  # what online quantization packs; None: all but the embeddings
    head_params: int = 0  # of an output head that is not the embedding
    counted_bytes: int | None = None  # of a quantized checkpoint, counted from its settings
    full_kv_heads: int | None = None  # of the layers that see the whole context, where they differ
    full_kv_dim: int | None = None  # values a token and KV head there; None: twice head_dim
    window_kv_heads: int | None = None  # of the sliding layers, where they differ
    window_kv_dim: int | None = None
    smoothquant_bytes: int | None = None  # of smoothquant's file, where it lies in the directory
    state_bytes: int = 0  # of one sequence in the layers that keep a state instead of keys and values
    has_smoothquant_file: bool | None = None  # beside the weights; None: nobody looked
    brings_code: bool | None = None  # config.json names a class of the checkpoint's own; None: nobody looked
    is_adapter: bool | None = None  # the directory is a LoRA adapter, and the facts are those of its base
    base_path: str | None = None  # of that base on the adapter's volume, where it was found by its name
    adapters: int | None = None  # LoRA adapters in all
    lora_slots: int | None = None  # places that the engine keeps for adapters served by name; 0: one is merged
    lora_rank: int | None = None  # of each place
    lora_whole: int | None = None  # values of one rank row of a place, on every rank
    lora_split: int | None = None  # and shared by the ranks
    lora_ignored: str | None = None  # tensors of adapters that the engine leaves alone
    kv_bits: float | None = None  # of a value of the KV cache, where the checkpoint asks for a format of its own
    unread: str | None = None  # keys of config.json that its class takes sizes from, and that nothing here reads
    drafts_by: str | None = None  # of a head: eagle, eagle3 or medusa; unknown; None: a complete model
    drafted_most: int | None = None  # Medusa heads: each drafts one token
    reads_hidden: int | None = None  # values of the served model's hidden state that the head reads
    takes_any_length: bool | None = None  # the engine knows no length of the model and takes any
    deepest_layer: int | None = None  # of the served model that an Eagle-3 head says it reads
    draft: ModelFacts | None = None  # of the model that drafts

    @property
    def params_text(self) -> str:
        """The number of parameters as people say it: 7.62 B, 2.9 M."""
        return f"{self.params / 1e9:.2f} B" if self.params >= 10**8 else f"{self.params / 1e6:.1f} M"

    def takes(self, tokens: int) -> bool:
        """Whether the engine serves a context of so many tokens."""
        return bool(self.takes_any_length) or tokens <= self.max_model_len

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON values, without what is not known; well under 2 KiB."""
        found = {key: value for key, value in asdict(self).items() if value is not None}
        return {**found, "draft": self.draft.to_dict()} if self.draft else found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelFacts:
        """Facts back from `to_dict`; keys of a newer version are passed over."""
        known = {field.name: field.default for field in fields(cls)}
        optional = {"weights_bytes": None, "stored_dtype": None, "quantization": None}
        values = {**optional, **{key: value for key, value in data.items() if key in known}}
        draft = _draft(values.pop("draft", None))
        for name, value in values.items():
            _must_be_possible(name, value)
        try:
            return cls(**values, draft=draft)
        except TypeError as error:
            raise FactsError(f"model facts are not complete: {error}") from error


def _draft(data: object) -> ModelFacts | None:
    """The facts of a model that drafts; a drafter has none of its own."""
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise FactsError(f"model facts cannot be right: draft is {shown(data)} and must be an object")
    return ModelFacts.from_dict({key: value for key, value in data.items() if key != "draft"})


def _must_be_possible(name: str, value: object) -> None:
    """Facts may have been written by anybody: FactsError names the one that no model can have."""
    kind = str(next(field.type for field in fields(ModelFacts) if field.name == name))
    if value is None and kind.endswith("| None"):
        return
    least = 1 if name in NEVER_ZERO else 0
    types, words = KINDS[kind.removesuffix(" | None")]
    right = isinstance(value, types) and (isinstance(value, bool) == (types is bool))
    if isinstance(value, int | float) and types is not bool:
        must_be_plausible(name, value)
        right = right and least <= value
        words = f"{words} from {least} to {limit_of(name).most}"
    if isinstance(value, str):
        right = right and len(value) <= TEXT_MAX and value.isprintable()
        if name == "base_path":
            right, words = right and stays_inside(value), f"{words}, {INSIDE_WORDS}"
    if not right:
        raise FactsError(f"model facts cannot be right: {name} is {shown(value)} and must be {words}")


def stays_inside(path: str) -> bool:
    """Whether a path leads nowhere but below the directory that it is joined to, links aside."""
    place = PurePosixPath(path)
    return not place.is_absolute() and ".." not in place.parts


def from_config(
    config: Mapping[str, Any], *, weights_bytes: int | None = None, stored_dtype: str | None = None
) -> ModelFacts:
    """Read the facts; FactsError names every missing key; what the weight files say (bytes, dtype) wins."""
    try:
        facts = _read(config, weights_bytes, stored_dtype)
    except UNREADABLE as error:  # a value of a kind, or of a size, that no reader of it expects
        why = str(error)[:TEXT_MAX] or type(error).__name__
        raise FactsError(f"config.json holds a value that cannot be used ({why}); copy the model's own file") from error
    for name, value in facts.to_dict().items():
        _must_be_possible(name, value)
    return facts


def _read(config: Mapping[str, Any], weights_bytes: int | None, stored_dtype: str | None) -> ModelFacts:
    text = text_settings(config)
    row = ARCHITECTURES.get(text.model_type, USUAL)
    architecture = str(next(iter(config.get("architectures") or text.get("architectures") or []), text.model_type))
    shape = read_shape(text, row)
    shape = shape if has_head(architecture) else replace(shape, tied=True)
    packing = packing_of(config, places(shape), text.model_type)
    method, bits = nominal(packing)
    dtype = stored_dtype or _stored_dtype(config, text)
    counted, context = _count(config, text, shape), own_context(text)
    if weights_bytes is None or not (dtype or packing):
        _must_be_counted(text, shape)
    params, how = _params(counted, weights_bytes, dtype, packing)
    facts = ModelFacts(
        architecture=architecture,
        model_type=text.model_type,
        params=params,
        params_how=how,
        weights_bytes=weights_bytes,
        stored_dtype=dtype,
        quantization=method,
        hidden_size=shape.hidden,
        num_hidden_layers=len(shape.layers),
        num_attention_heads=text.number("num_attention_heads") or 1,
        num_key_value_heads=shape.base.kv_heads,
        head_dim=shape.base.head_dim,
        vocab_size=shape.vocab,
        max_model_len=context.tokens,
        takes_any_length=context.is_open or None,
        quantization_bits=bits,
        kv_bits=packing.kv_bits if packing else None,
        intermediate_size=shape.intermediate or None,
        embedding_params=counted.roles[EMBEDDING] + counted.roles[HEAD],
        num_experts=shape.experts or None,
        multimodal=counted.multimodal,
        head_params=counted.roles[HEAD],
        brings_code=_brings_code(config),
        linear_params=sum(counted.roles[role] for role in LINEAR),
        counted_bytes=_counted_bytes(counted, shape, row, packing),
        **_cache(text, shape, row),
    )
    return replace(facts, unread=", ".join(unread(text)[:UNREAD_SHOWN]) or None)


@dataclass(frozen=True, slots=True)
class Count:
    """What counting gave, and how."""

    roles: Counter[str]
    how: str
    multimodal: bool

    @property
    def params(self) -> int:
        """All of them."""
        return self.roles.total()


def _count(config: Mapping[str, Any], text: Settings, shape: Shape) -> Count:
    roles = count_params(shape)
    multimodal, tower = tower_params(config, shape.hidden)
    roles[TOWER] = tower or 0
    how = "counted from config.json"
    if text.model_type not in ARCHITECTURES and text.model_type not in library():
        how += f' by the usual shape of a decoder, as model_type "{text.model_type}" is not in the table'
    if multimodal and not tower:
        how += "; its vision or audio part is not counted"
    return Count(roles, how, multimodal)


def _counted_bytes(counted: Count, shape: Shape, row: Architecture, packing: Packing | None) -> int | None:
    """The bytes of a quantized checkpoint, by its settings; None for plain weights."""
    if packing is None:
        return None
    copy = shape.vocab * shape.hidden * PLAIN_BYTES if row.stores_head and shape.tied else 0
    return packing.stored_bytes(counted.roles, PLAIN_BYTES) + copy


def _must_be_counted(text: Settings, shape: Shape) -> None:
    """Refuse what cannot be counted, with the key that is missing."""
    if text.model_type in UNCOUNTED:
        raise FactsError(
            f'model_type "{text.model_type}" cannot be counted from config.json, and the size of its weights is not '
            "known: point to the checkpoint's directory, so that its files can be measured",
            ("weights_bytes",),
        )
    needs = {
        "intermediate_size": any(
            layer.mlp == DENSE and not (layer.intermediate or shape.intermediate) for layer in shape.layers
        ),
        "moe_intermediate_size": any(layer.mlp == EXPERTS and not shape.expert_width for layer in shape.layers),
    }
    missing = tuple(name for name, is_missing in needs.items() if is_missing)
    if missing:
        raise FactsError(
            f"config.json does not say {missing[0]} (read as {', '.join(SPELLINGS[missing[0]])}); "
            "add it, or point to the checkpoint's directory, so that its files can be measured",
            missing,
        )


def _params(
    counted: Count, weights_bytes: int | None, plain_dtype: str | None, packing: Packing | None
) -> tuple[int, str]:
    """The count, unless the files contradict it: their bytes, as plain weights or by the checkpoint's own formats."""
    if weights_bytes is None or not (plain_dtype or packing):
        return counted.params, counted.how
    if packing:
        stored, how = weights_bytes * 8 / packing.bits, f"at {packing.bits:g} bits a weight"
        ours, near = packing.stored_bytes(counted.roles, PLAIN_BYTES), PACKED_NEAR
    else:
        plain = dtype_bytes(plain_dtype or "")
        stored, how = weights_bytes / plain, f"as {plain_dtype}"
        ours, near = round(counted.params * plain), PLAIN_NEAR
    agrees = ours and abs(weights_bytes / ours - 1) <= near
    return (counted.params, counted.how) if agrees else (round(stored), f"from the checkpoint's bytes {how}")


def _cache(text: Settings, shape: Shape, row: Architecture) -> dict[str, Any]:
    """What a context leaves on the cards; sizes of a kind of layer only where `head_dim` and KV heads do not tell."""
    full, windowed = kv_keeping(shape) if not row.encodes else (0, 0)
    states = sum(layer.mixer in (STATE, BOTH) for layer in shape.layers)
    found: dict[str, Any] = {
        "kv_layers": full,
        "window_layers": windowed,
        "window": text.number("sliding_window") if windowed else None,
        "latent_kv_dim": _latent_kv_dim(text),
        "state_bytes": STATE_VALUE_BYTES * shape.state.state_values * states,
    }
    for kind, attention in (("full", shape.full), ("window", shape.window)):
        if attention.kv_heads != shape.base.kv_heads:
            found[f"{kind}_kv_heads"] = attention.kv_heads
        if attention.kv_values != 2 * shape.base.head_dim:
            found[f"{kind}_kv_dim"] = attention.kv_values
    return found


def _brings_code(config: Mapping[str, Any]) -> bool:
    named = config.get("auto_map")
    return isinstance(named, Mapping) and any(str(name).startswith("AutoModel") for name in named)


def _stored_dtype(config: Mapping[str, Any], text: Settings) -> str | None:
    for part in (text.given, config):
        for key in ("torch_dtype", "dtype"):
            if isinstance(part.get(key), str):
                return str(part[key]).removeprefix("torch.")
    return None


def _latent_kv_dim(text: Settings) -> int | None:
    if compression_ratios(text):
        return text.number("head_dim")  # DeepSeek V4: one row is key and value of every head
    latent = read_latent(text)
    return latent.kv_rank + latent.rope_dim if latent else None
