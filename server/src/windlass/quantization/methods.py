"""The quantization methods by name, and what a service gets for `--quantization NAME`; pure, no torch.

`launch` asks `decide` before any weight is read; the plug-in registers the rows that are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.quantization.codebook import BLOCK

SMOOTHQUANT_FILE = "smoothq_model-8bit-auto.safetensors"
NONE, AUTO = "none", "auto"
MAKE_FILE = "windlass quantize smoothquant MODEL --data FILE"


@dataclass(frozen=True, slots=True)
class Method:
    """One method of ours. `engine` is the name that vLLM gets, `capability` ten times the compute capability.

    vLLM has an `fp8` of its own, for checkpoints that are FP8 already, so that ours goes by another name there.
    """

    name: str
    engine: str
    bits: int
    capability: int
    dtypes: tuple[str, ...] = ("float16", "bfloat16")
    cpu_dtypes: tuple[str, ...] = ("float16", "bfloat16", "float32")
    scale_bits: float = 0  # for each weight, beside its own bits
    takes_experts: bool = False
    has_loader: bool = True
    """Whether our loader reads its weights, so that they are kept, or in smoothquant's file; else the engine's does."""

    @property
    def bytes_per_weight(self) -> float:
        """Of a quantized matrix; a scale for each row is left out, it is less than a thousandth."""
        return (self.bits + self.scale_bits) / 8


METHODS = {
    method.name: method
    for method in (
        Method("fp8", "windlass_fp8", 8, 89, takes_experts=True, has_loader=False),
        Method("ifq", "ifq", 8, 75, ("float16",)),
        Method("ifq_nf4", "ifq_nf4", 4, 80, ("float16",), ("float16",), 16 / BLOCK),
        Method("smoothquant", "smoothquant", 8, 75),
    )
}
NAMES = (*METHODS, AUTO, NONE)
ENGINES_OWN = (
    "auto_awq", "auto_gptq", "awq", "awq_marlin", "bitsandbytes", "compressed-tensors", "deepseek_v4_fp8",
    "experts_int8", "fbgemm_fp8", "fp8_per_block", "fp8_per_channel", "fp8_per_tensor", "fp_quant", "gguf",
    "gpt_oss_mxfp4", "gptq", "gptq_marlin", "humming", "inc", "int8_per_channel_weight_only", "modelopt",
    "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "moe_wna16", "mxfp4", "mxfp8", "nvfp4_per_token", "online",
    "quark", "torchao",
)  # fmt: skip
"""The engine's own names, and those of its plug-ins for bitsandbytes and GGUF: they pass through."""
_FULL_NAMES = {"half": "float16", "float": "float32"}


@dataclass(frozen=True, slots=True)
class Card:
    """What computes: a GPU and ten times its compute capability, None where that is not known; or a CPU."""

    name: str = ""
    capability: int | None = None
    is_cpu: bool = False


CPU = Card("CPU", is_cpu=True)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known of a model directory."""

    quantized_by: str = ""
    has_smoothquant_file: bool = False
    has_experts: bool = False
    overflows: str = ""
    """The kind of model, where it leaves the range of float16."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A method of ours (None: not quantized) and the dtype it needs (None: any), or why it cannot be."""

    method: Method | None = None
    dtype: str | None = None
    why: str = ""
    problem: str = ""


def decide(name: str, card: Card, dtype: str, checkpoint: Checkpoint) -> Decision:
    """What becomes of one of `NAMES`; `dtype` is the asked one, `auto` if none was."""
    asked = _FULL_NAMES.get(dtype, dtype)
    if name == NONE:
        return Decision()
    if name == AUTO:
        return _automatic(card, asked, checkpoint)
    method = METHODS[name]
    problem = (
        _quantized_twice(method, checkpoint)
        or _without_file(method, checkpoint)
        or _with_experts(method, checkpoint)
        or _too_old(method, card)
        or _overflows(method, card, checkpoint)
        or _wrong_dtype(method, card, asked)
    )
    if problem:
        return Decision(problem=f"--quantization {name} {problem}")
    dtypes = _dtypes(method, card)
    needed = dtypes[0] if asked == "auto" and "bfloat16" not in dtypes else None
    return Decision(method, needed)


def unknown(name: str) -> str:
    """The sentence for a name that is neither ours nor the engine's; empty when it is one."""
    if name in NAMES or name in ENGINES_OWN:
        return ""
    return (
        f'--quantization is "{name}", which is no method; choose one of {", ".join(NAMES)}, or one of the engine\'s '
        f"own: {', '.join(ENGINES_OWN)}"
    )


def _automatic(card: Card, dtype: str, checkpoint: Checkpoint) -> Decision:
    """smoothquant where its file lies, else ifq; nothing where neither can be."""
    if checkpoint.quantized_by:
        return Decision(why=f"auto: the model is {checkpoint.quantized_by} already")
    reason = ""
    for name in ("smoothquant", "ifq") if checkpoint.has_smoothquant_file else ("ifq",):
        found = decide(name, card, dtype, checkpoint)
        if found.method:
            return Decision(found.method, found.dtype, f"auto: {_AUTO_WHY[name]}")
        reason = found.problem.partition(";")[0].removeprefix("--quantization ")
    return Decision(why=f"auto: {reason}")


_AUTO_WHY = {"smoothquant": f"{SMOOTHQUANT_FILE} is there", "ifq": f"there is no {SMOOTHQUANT_FILE}"}


def _quantized_twice(method: Method, checkpoint: Checkpoint) -> str:
    has = checkpoint.quantized_by
    return f"cannot be put on a model that is {has} already; leave --quantization out" if has else ""


def _without_file(method: Method, checkpoint: Checkpoint) -> str:
    if method.name != "smoothquant" or checkpoint.has_smoothquant_file:
        return ""
    return f"needs {SMOOTHQUANT_FILE} in the model directory; make it with `{MAKE_FILE}`, or take ifq"


def _with_experts(method: Method, checkpoint: Checkpoint) -> str:
    if method.takes_experts or not checkpoint.has_experts:
        return ""
    return "does not quantize mixture-of-experts layers, and the model has them; take fp8, or leave --quantization out"


def _too_old(method: Method, card: Card) -> str:
    if card.capability is None or card.capability >= method.capability:
        return ""
    found = f"needs compute capability {method.capability / 10:.1f}, and {card.name} has {card.capability / 10:.1f}"
    others = [row.name for row in METHODS.values() if row.capability <= card.capability and row.name != "smoothquant"]
    if not others:
        return f"{found}, which CUDA 13 has no code for; serve the model on a newer card, or by the DeepSpeed image"
    return f"{found}; take {' or '.join(others)}, or leave --quantization out"


def _overflows(method: Method, card: Card, checkpoint: Checkpoint) -> str:
    if not checkpoint.overflows or "bfloat16" in _dtypes(method, card):
        return ""
    others = _others("bfloat16", card)
    return f"runs with float16 only, in which {checkpoint.overflows} overflows; {others}leave --quantization out"


def _wrong_dtype(method: Method, card: Card, dtype: str) -> str:
    dtypes = _dtypes(method, card)
    if dtype == "auto" or dtype in dtypes:
        return ""
    only = " only" if len(dtypes) == 1 else ""
    return (
        f"runs with {' or '.join(dtypes)}{only}, not {dtype}; set --dtype {dtypes[0]}, {_others(dtype, card)}"
        "leave --quantization out"
    )


def _dtypes(method: Method, card: Card) -> tuple[str, ...]:
    return method.cpu_dtypes if card.is_cpu else method.dtypes


def _others(dtype: str, card: Card) -> str:
    """`take A or B, or `, with the methods that need no file and that a card can run in a dtype; `or ` without any."""
    can = (row for row in METHODS.values() if card.capability is None or row.capability <= card.capability)
    names = [row.name for row in can if dtype in _dtypes(row, card) and row.name != "smoothquant"]
    return f"take {' or '.join(names)}, or " if names else "or "
