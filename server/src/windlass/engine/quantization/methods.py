"""What vLLM's plug-in adds to the table of methods: the name that vLLM gets, the bits, and who reads the weights.

What a method needs and costs stands in `windlass_sizing.quantization.methods`, what becomes of it in `decision` beside.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.quantization import methods


@dataclass(frozen=True, slots=True)
class Method:
    """One method of ours. `engine` is the name that vLLM gets.

    vLLM has an `fp8` of its own, for checkpoints that are FP8 already, so that ours goes by another name there.
    """

    name: str
    engine: str
    bits: int
    has_loader: bool = True
    """Whether our loader reads its weights, so that they are kept, or in smoothquant's file; else the engine's does."""

    @property
    def capability(self) -> int:
        """Ten times the least compute capability."""
        major, minor = methods.METHODS[self.name].min_capability
        return 10 * major + minor

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Of the activations, on a GPU."""
        return methods.METHODS[self.name].dtypes

    @property
    def cpu_dtypes(self) -> tuple[str, ...]:
        """Of the activations, on a CPU."""
        return methods.METHODS[self.name].cpu_dtypes


METHODS = {
    method.name: method
    for method in (
        Method("fp8", "windlass_fp8", 8, has_loader=False),
        Method("ifq", "ifq", 8),
        Method("ifq_nf4", "ifq_nf4", 4),
        Method("smoothquant", "smoothquant", 8),
    )
}
