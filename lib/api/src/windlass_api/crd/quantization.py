"""What the resource's rules need of the shared table of quantization methods."""

from windlass_sizing.quantization.methods import METHODS, OURS

FLOAT16_ONLY = tuple(name for name in OURS if {*METHODS[name].dtypes, *METHODS[name].cpu_dtypes} == {"float16"})
"""They compute in float16 on every card and on the CPU."""
