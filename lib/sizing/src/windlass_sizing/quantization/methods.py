"""Every quantization method by name: what it is, what it needs and what its weights cost. One row a method.

The operator, the server, the CRD and the docs read these rows; `decision.py` decides with them. `nominal_bytes` is the
rule of thumb's figure, `real_bytes` ours with scales; None means that the weights stay as they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from windlass_sizing.errors import SizingError
from windlass_sizing.quantization.engine import ENGINE, Needs

Capability = tuple[int, int]

NONE, AUTO = "none", "auto"
SMOOTHQUANT = "smoothquant"
SMOOTHQUANT_FILE = "smoothq_model-8bit-auto.safetensors"
FLOATS16 = ("float16", "bfloat16")
FLOATS = (*FLOATS16, "float32")


class Kind(StrEnum):
    """Where a method's weights come from."""

    OURS = "ours"  # our plug-in quantizes plain weights while loading, or reads smoothquant's file
    ONLINE = "online"  # the engine quantizes plain weights while loading
    FORMAT = "format"  # the checkpoint is quantized; the method reads it
    REFUSED = "refused"  # the pinned engine cannot run it


@dataclass(frozen=True, slots=True)
class Method:
    """One quantization method."""

    name: str
    kind: Kind
    nominal_bytes: float | None = None
    real_bytes: float | None = None
    min_capability: Capability = (0, 0)
    dtypes: tuple[str, ...] = FLOATS16  # of the activations, on a GPU
    cpu_dtypes: tuple[str, ...] = FLOATS16
    head_bytes: float | None = None  # of an output head that is a matrix of its own; None: it stays as it is
    experts: bool = True  # whether it quantizes mixtures of experts
    formats: tuple[str, ...] = ()  # the checkpoints that it reads, by their `quant_method`
    model_types: tuple[str, ...] = ()  # the only models whose checkpoints it reads; empty: any
    why: str = ""  # of a refused one
    instead: str = ""

    @property
    def on_plain_weights(self) -> bool:
        """Whether it takes a checkpoint that is not quantized."""
        return self.kind in (Kind.OURS, Kind.ONLINE)


# Scales, from the kernels' layouts: a float32 for each row of some thousand weights, or for NF4 a float16 for each 64.
ROW_SCALE = 4 / 4096
NF4_SCALE = 2 / 64
BLOCK_SCALE = 4 / (128 * 128)  # a float32 for each block of 128 × 128
MX_SCALE = 1 / 32  # a byte for each 32


def needs_of(name: str) -> Needs:
    """Requirements of one of the pinned engine's methods; SizingError where its record lacks the method."""
    if name in ENGINE.methods:
        return ENGINE.methods[name]
    raise SizingError(
        f"engine.json of vLLM {ENGINE.release} has no method {name}; write the record again by "
        "tools/engine_abilities.py where the engine is installed, or leave the method out of methods.py"
    )


def _online(name: str, nominal: float | None = None, real: float | None = None, *formats: str) -> Method:
    """A method of the engine's that quantizes plain weights; it also reads checkpoints of `formats`."""
    needs = needs_of("online" if name in ENGINE.online else name)
    return Method(name, Kind.ONLINE, nominal, real, needs.capability, needs.dtypes, needs.dtypes, formats=formats)


def _format(name: str, *formats: str, model_types: tuple[str, ...] = ()) -> Method:
    """A method of the engine's that reads quantized checkpoints, those of its own name or of `formats`."""
    needs = needs_of(name)
    plain = Method(name, Kind.FORMAT, None, None, needs.capability, needs.dtypes, needs.dtypes)
    return replace(plain, formats=formats or (name,), model_types=model_types)


def _refused(name: str, why: str, instead: str) -> Method:
    return Method(name, Kind.REFUSED, why=why, instead=instead)


PLUG_IN = "is a plug-in of the engine that no image installs"
GONE = "is no longer in the engine"
DEPRECATED = "is deprecated, and the engine refuses it"
PLAIN = "on the unquantized checkpoint"
FLOAT16 = ("float16",)
INT8 = 1 + ROW_SCALE  # as FP8: a byte, and a scale for each row
_ROWS = (
    Method("fp8", Kind.OURS, 1, INT8, (8, 9), FLOATS16, FLOATS, head_bytes=INT8),
    Method("ifq", Kind.OURS, 1, INT8, (7, 5), FLOAT16, FLOATS, head_bytes=INT8, experts=False),
    Method("ifq_nf4", Kind.OURS, 0.5, 0.5 + NF4_SCALE, (8, 0), FLOAT16, FLOAT16, head_bytes=INT8, experts=False),
    Method("smoothquant", Kind.OURS, 1, INT8, (7, 5), FLOATS16, FLOATS, experts=False),
    _online("fp8_per_tensor", 1, 1),
    _online("fp8_per_block", 1, 1 + BLOCK_SCALE),
    _online("fp8_per_channel", 1, 1 + ROW_SCALE),
    _online("mxfp8", 1, 1 + MX_SCALE, "mxfp8"),
    _online("mxfp4", 0.5, 0.5 + MX_SCALE, "mxfp4"),
    # These quantize experts alone, which the facts do not count apart: the plan prices the weights as stored.
    _online("experts_int8"),
    _online("int8_per_channel_weight_only"),
    _online("nvfp4_per_token"),
    _format("gptq"),
    _format("gptq_marlin", "gptq"),
    _format("auto_gptq", "gptq"),
    _format("awq"),
    _format("awq_marlin", "awq"),
    _format("auto_awq", "awq"),
    _format("moe_wna16", "gptq", "awq"),
    _format("compressed-tensors"),
    _format("modelopt", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed"),
    _format("modelopt_fp4", "modelopt", "modelopt_fp4"),
    _format("modelopt_mxfp8", "modelopt", "modelopt_mxfp8"),
    _format("modelopt_mixed", "modelopt", "modelopt_mixed"),
    _format("gpt_oss_mxfp4", "mxfp4", "gpt_oss_mxfp4", model_types=("gpt_oss",)),
    _format("deepseek_v4_fp8", "fp8", "deepseek_v4_fp8", model_types=("deepseek_v4", "deepseek_v41")),
    _format("inc", "inc", "auto-round"),
    _format("quark"),
    _format("torchao"),
    _refused("online", "names no format", "take fp8_per_channel, fp8_per_tensor, fp8_per_block, mxfp8 or mxfp4"),
    _refused("humming", "is a kernel of the engine that is not planned for", "the engine chooses a kernel itself"),
    _refused("marlin", "is a kernel and no method", "take gptq_marlin or awq_marlin"),
    _refused("fbgemm_fp8", DEPRECATED, f"take fp8 {PLAIN}"),
    _refused("fp_quant", DEPRECATED, f"take mxfp4 {PLAIN}"),
    _refused("bitsandbytes", PLUG_IN, f"take ifq_nf4 {PLAIN}"),
    _refused("gguf", PLUG_IN, f"take ifq_nf4 {PLAIN}"),
    _refused("aqlm", GONE, f"take ifq_nf4 {PLAIN}"),
    _refused("qqq", GONE, f"take smoothquant {PLAIN}"),
    _refused("deepspeedfp", GONE, f"take fp8 {PLAIN}"),
    _refused("gptq_marlin_24", GONE, "take the checkpoint's gptq form"),
)  # fmt: skip

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
OURS = tuple(row.name for row in _ROWS if row.kind is Kind.OURS)
ENGINES = tuple(row.name for row in _ROWS if row.kind in (Kind.ONLINE, Kind.FORMAT))
NAMES = (*OURS, AUTO, NONE)
ACCEPTED = (*NAMES, *ENGINES)
"""Every name that a spec or a start command may have."""


def row_of(name: str | None) -> Method | None:
    """The row of a method in effect; None for plain weights, and for `auto`, which is none until it is decided."""
    return METHODS.get(name or NONE)


READERS: dict[str, str] = {
    **{name: name for name in ENGINE.methods if name not in ENGINE.deprecated and name != "online"},
    "auto-round": "inc",
}
"""The engine's method that reads a checkpoint, by the checkpoint's `quant_method`."""


def reader_of(quantized_by: str) -> Needs | None:
    """What the engine needs to read a checkpoint of this `quant_method`; None when it cannot read it."""
    name = READERS.get(quantized_by)
    return needs_of(name) if name else None
