"""What the formula needs to know of a model, read from its config.json.

The inspect Job makes `ModelFacts` and prints them; the operator and `windlass plan` read them back. Real bytes of the
checkpoint, where they are known, win over what is counted from the configuration. No I/O here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from windlass_sizing.architectures import ARCHITECTURES, Architecture
from windlass_sizing.dtypes import dtype_bytes
from windlass_sizing.errors import FactsError
from windlass_sizing.keys import read_int, text_part
from windlass_sizing.params import Shape, count_params, embedding_params
from windlass_sizing.quantized import quantization_of
from windlass_sizing.shape import read_latent, read_shape, require

KV_KEEPING = ("full_attention", "attention", "global")
WINDOWED = ("sliding_attention", "chunked_attention", "local")
VISION_PARTS = ("vision_config", "audio_config", "visual", "vision_tower_config")


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
    max_model_len: int  # the model's own
    quantization_bits: float | None = None
    intermediate_size: int | None = None
    embedding_params: int = 0  # token embedding and output head: online quantization leaves them alone
    kv_layers: int = 0  # layers that keep keys and values of the whole context
    window_layers: int = 0  # layers that keep only `window` tokens
    window: int | None = None
    latent_kv_dim: int | None = None  # multi-head latent attention: values a token and layer, on every rank
    num_experts: int | None = None
    multimodal: bool = False

    @property
    def params_text(self) -> str:
        """The number of parameters as people say it: 7.62 B, 2.9 M."""
        return f"{self.params / 1e9:.2f} B" if self.params >= 10**8 else f"{self.params / 1e6:.1f} M"

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON values, without what is not known; well under 2 KiB."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelFacts:
        """Facts back from `to_dict`; keys of a newer version are passed over."""
        known = {field.name: field.default for field in fields(cls)}
        optional = {"weights_bytes": None, "stored_dtype": None, "quantization": None}
        values = {**optional, **{key: value for key, value in data.items() if key in known}}
        try:
            return cls(**values)
        except TypeError as error:
            raise FactsError(f"model facts are not complete: {error}") from error


def from_config(
    config: Mapping[str, Any], *, weights_bytes: int | None = None, stored_dtype: str | None = None
) -> ModelFacts:
    """Read the facts; FactsError names every missing key; what the weight files say (bytes, dtype) wins."""
    text = text_part(config)
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    row = ARCHITECTURES.get(model_type)
    shape = read_shape(text, row)
    quantization, bits = quantization_of(config)
    dtype = stored_dtype or _stored_dtype(config, text)
    multimodal = any(isinstance(config.get(part), Mapping) for part in VISION_PARTS)
    stored = _stored_params(weights_bytes, dtype if quantization is None else None, bits)
    params, how = _params(shape, model_type, stored, multimodal)
    full, windowed, window = _attention_layers(text, shape.layers, row)
    return ModelFacts(
        architecture=str(next(iter(config.get("architectures") or text.get("architectures") or []), model_type)),
        model_type=model_type,
        params=params,
        params_how=how,
        weights_bytes=weights_bytes,
        stored_dtype=dtype,
        quantization=quantization,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=shape.vocab,
        max_model_len=_max_model_len(text, row),
        quantization_bits=bits,
        intermediate_size=shape.intermediate or None,
        embedding_params=embedding_params(shape),
        kv_layers=full,
        window_layers=windowed,
        window=window,
        latent_kv_dim=_latent_kv_dim(text),
        num_experts=shape.experts or None,
        multimodal=multimodal,
    )


def _stored_params(weights_bytes: int | None, plain_dtype: str | None, bits: float | None) -> tuple[int, str] | None:
    """Parameters told by the files themselves: exact for plain weights, near for quantized ones."""
    if weights_bytes is None:
        return None
    if plain_dtype:
        return round(weights_bytes / dtype_bytes(plain_dtype)), f"from the checkpoint's bytes as {plain_dtype}"
    if bits:
        return round(weights_bytes * 8 / bits), f"from the checkpoint's bytes at {bits:g} bits a weight"
    return None


def _params(shape: Shape, model_type: str, stored: tuple[int, str] | None, multimodal: bool) -> tuple[int, str]:
    """Plain files first, then the count where we know the architecture, then an estimate from quantized files."""
    known = model_type in ARCHITECTURES
    if stored and (not known or " at " not in stored[1]):
        return stored
    if known:
        part = "; its vision or audio part is not counted" if multimodal else ""
        return count_params(shape), f"counted from config.json{part}"
    raise FactsError(
        f'model_type "{model_type}" is not in the table of architectures, and the size of its weights is not '
        "known: point to the checkpoint's directory, so that its files can be measured",
        ("weights_bytes",),
    )


def _max_model_len(text: Mapping[str, Any], row: Architecture | None) -> int:
    default = row.max_model_len if row else None
    return read_int(text, "max_model_len") or default or require(text, ("max_model_len",))["max_model_len"]


def _stored_dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str | None:
    for part in (text, config):
        for key in ("torch_dtype", "dtype"):
            if isinstance(part.get(key), str):
                return str(part[key]).removeprefix("torch.")
    return None


def _latent_kv_dim(text: Mapping[str, Any]) -> int | None:
    latent = read_latent(text)
    return latent.kv_rank + latent.rope_dim if latent else None


def _attention_layers(text: Mapping[str, Any], layers: int, row: Architecture | None) -> tuple[int, int, int | None]:
    """How many layers keep the whole context, how many a window of it, and the window."""
    window = read_int(text, "sliding_window")
    types = text.get("layer_types")
    if isinstance(types, list) and types:
        return sum(kind in KV_KEEPING for kind in types), sum(kind in WINDOWED for kind in types), window
    if window and row and row.window_pattern:
        full = layers // row.window_pattern
        return full, layers - full, window
    interval = text.get("full_attention_interval")
    if isinstance(interval, int) and interval > 1:
        return layers // interval, 0, None
    return layers, 0, None
