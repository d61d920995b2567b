"""The quantization methods by name, and what a service gets for `--quantization NAME`; pure, no torch.

`launch` asks `decide` before any weight is read; the plug-in registers the rows that are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.quantization.codebook import BLOCK

SMOOTHQUANT_FILE = "smoothq_model-8bit-auto.safetensors"


@dataclass(frozen=True, slots=True)
class Method:
    """One method of ours. `engine` is the name that vLLM gets, `capability` ten times the compute capability."""

    name: str
    engine: str
    bits: int
    capability: int
    dtypes: tuple[str, ...] = ("float16", "bfloat16")
    scale_bits: float = 0  # for each weight, beside its own bits

    @property
    def bytes_per_weight(self) -> float:
        """Of a quantized matrix; a scale for each row is left out, it is less than a thousandth."""
        return (self.bits + self.scale_bits) / 8


METHODS = {
    method.name: method
    for method in (
        Method("fp8", "fp8_per_channel", 8, 89),
        Method("ifq", "ifq", 8, 75, ("float16",)),
        Method("ifq_nf4", "ifq_nf4", 4, 80, ("float16",), 16 / BLOCK),
    )
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known of a model folder: how it is quantized already, and whether smoothquant's file lies in it."""

    quantized_by: str = ""
    has_smoothquant_file: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The name for vLLM (None: no quantization), the dtype it needs (None: any), or why it cannot be."""

    engine: str | None = None
    dtype: str | None = None
    problem: str = ""


def automatic(capability: int | None, checkpoint: Checkpoint) -> str | None:
    """`auto`: nothing on a card that supports none of it or on a quantized checkpoint; smoothquant's file; else ifq.

    `capability` is ten times the compute capability, None on a CPU.
    """
    if checkpoint.quantized_by or (capability is not None and capability < METHODS["ifq"].capability):
        return None
    return "smoothquant" if checkpoint.has_smoothquant_file else "ifq"


def decide(name: str, capability: int | None, dtype: str, checkpoint: Checkpoint) -> Decision:
    """What vLLM gets for one of our method names; `dtype` is the asked one, `auto` if none was."""
    method = METHODS[name]
    if checkpoint.quantized_by:
        remedy = f"drop --quantization to serve it as it is, or give {name} the unquantized checkpoint"
        return Decision(problem=f"--quantization {name}: the model is quantized by {checkpoint.quantized_by}; {remedy}")
    if capability is not None and capability < method.capability:
        return Decision(problem=_too_old(method, capability))
    if dtype != "auto" and dtype not in method.dtypes:
        wanted = " or ".join(method.dtypes)
        return Decision(problem=f"--quantization {name} computes in {wanted}, not {dtype}; drop --dtype {dtype}")
    return Decision(engine=method.engine, dtype=method.dtypes[0] if len(method.dtypes) == 1 else None)


def _too_old(method: Method, capability: int) -> str:
    others = [row.name for row in METHODS.values() if row.capability <= capability]
    remedy = f"this card can run {' or '.join(others)}" if others else "this card can run none of the methods"
    return (
        f"--quantization {method.name} needs compute capability {method.capability / 10:.1f}, "
        f"this card has {capability / 10:.1f}; {remedy}"
    )
